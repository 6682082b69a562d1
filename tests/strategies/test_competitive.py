"""Competitive gradient descent against a dense solve, and its conjugate gradients against NumPy."""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from ganexp import GAN, Batch, Prior, strategies, wrappers
from ganexp.gan import dot
from ganexp.losses import WGAN
from ganexp.penalties import R1, GradientPenalty
from ganexp.strategies.competitive import conjugate_gradients
from ganexp.terms import Balance
from tests.tiny import CASES, Case, real_batches, state, tiny_gan


def flat(tensors):
    return torch.cat([one.reshape(-1) for one in tensors]).detach().numpy()


def dense(gan, x, z, rate_d, rate_g, weight=1.0):
    """Return y and x of the class's two equations, from the Hessian of f as a function of all weights at once."""
    networks = gan.generator, gan.discriminator
    names = [[name for name, _ in network.named_parameters()] for network in networks]
    sizes = [[p.numel() for p in network.parameters()] for network in networks]
    shapes = [[p.shape for p in network.parameters()] for network in networks]
    n = sum(sizes[0])

    def f(weights):
        found = []
        for k, part in enumerate((weights[:n], weights[n:])):
            tensors = [one.view(shape) for one, shape in zip(part.split(sizes[k]), shapes[k], strict=True)]
            found.append(dict(zip(names[k], tensors, strict=True)))
        fake = functional_call(networks[0], found[0], (z.values,))
        return gan.loss.g_loss(None, functional_call(networks[1], found[1], (fake,)))

    at = torch.cat([p.detach().reshape(-1) for network in networks for p in network.parameters()])
    mixed = torch.autograd.functional.hessian(f, at, vectorize=True).numpy()[:n, n:]  # D_θψ
    d, g = gan.gradients(*gan.losses(x, gan.generate(z)))
    m = len(at) - n
    system = np.block([[np.eye(n), rate_d * weight * mixed], [-rate_g * mixed.T, np.eye(m)]])
    solved = np.linalg.solve(system, np.concatenate([flat(g), flat(d)]))
    return solved[n:], solved[:n]


@pytest.mark.parametrize(
    ("case", "rate", "weight"),
    [
        (CASES["minimax"], 3.0, 1.0),
        (CASES["minimax"], 3.0, 0.5),
        pytest.param(CASES["minimax"], None, 1.0, marks=pytest.mark.slow),
        pytest.param(CASES["minimax"], 3.0, "moving", marks=pytest.mark.slow),
        pytest.param(CASES["minimax"], 3.0, 0.0, marks=pytest.mark.slow),
        pytest.param(CASES["wgan"], 3.0, 1.0, marks=pytest.mark.slow),
        pytest.param(Case(WGAN, R1), None, 1.0, marks=pytest.mark.slow),
        pytest.param(Case(WGAN, R1), None, 2.5, marks=pytest.mark.slow),
    ],
)
def test_it_is_a_dense_solve_also_from_where_the_last_one_ended(case, rate, weight):
    gan, reals = tiny_gan(case), real_batches()
    gan.balance = Balance(weight=weight if weight != "moving" else 1.0)
    if weight == "moving":
        gan.balance.weight = weight = torch.tensor(0.4, dtype=torch.float64)
    with torch.no_grad():
        torch._foreach_mul_([*gan.discriminator.parameters(), *gan.generator.parameters()], 3)  # so that D is large
    strategy = strategies.Competitive(rate=rate, steps=60, tolerance=1e-12)
    for _ in range(3):
        x, z = Batch(next(reals)), gan.sample()
        d, g = gan.losses(x, gan.generate(z))
        y, x_g = strategy.anticipated(gan, d, g, gan.zero_sum_weight())
        expected_y, expected_x = dense(gan, x, z, *(rate or 0.02, rate or 0.05), float(weight))
        np.testing.assert_allclose(flat(y), expected_y, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(flat(x_g), expected_x, rtol=1e-8, atol=1e-11)
        gan.update_both(d, g, (y, x_g))


class OneWeight(nn.Module):
    """A number that G returns, or that D multiplies its sample by."""

    def __init__(self, at, multiplies):
        super().__init__()
        self.weight, self.multiplies = nn.Parameter(torch.tensor(at, dtype=torch.float64)), multiplies

    def forward(self, x):
        return self.weight * x.squeeze(1) if self.multiplies else self.weight.expand(len(x), 1)


def test_with_half_the_weight_each_player_answers_by_its_own_mixed_derivative():
    """D = ψx and G = θ with reals at 0: L_G = −wψθ and L_D = ψθ, so that x = −wψ + ηwy and y = θ − ηx, with η = w = ½."""
    generator, discriminator = OneWeight(0.7, False), OneWeight(-0.4, True)
    sgd = [torch.optim.SGD(net.parameters(), lr=0.5) for net in (generator, discriminator)]
    prior = Prior(1, dtype=torch.float64)
    gan = GAN(generator, discriminator, WGAN(), *sgd, prior, batch_size=2, balance=Balance(weight=0.5))
    strategies.Competitive(tolerance=1e-12)(gan, itertools.repeat(torch.zeros(2, 1).double()), d_steps=1, g_steps=1)
    assert (generator.weight.item(), discriminator.weight.item()) == pytest.approx((8 / 15, -2 / 3), rel=1e-12)


def test_the_penalty_takes_part_in_ds_gradient_alone():
    """Its samples move with G, which is left out of the mixed derivatives: they stay those of the loss."""
    products = []
    for penalty in (GradientPenalty, R1):
        gan, x = tiny_gan(Case(WGAN, penalty)), Batch(next(real_batches()))
        field = gan.field(*gan.losses(x, gan.generate(gan.sample())))
        products.append(field.of_d_by_g([torch.ones_like(v) for v in field.split(field.vector)[0]]))
    assert all(map(torch.equal, *products))


def definite(n):
    matrix = np.random.default_rng(0).normal(size=(n, n))
    matrix = matrix @ matrix.T + np.eye(n)
    return matrix, np.random.default_rng(1).normal(size=n), torch.from_numpy(matrix)


@pytest.mark.parametrize("start", ["zero", "near"])
def test_conjugate_gradients_end_at_the_tolerance(start):
    matrix, b, product = definite(12)
    known = np.linalg.solve(matrix, b)
    x = torch.from_numpy(known + 0.1 if start == "near" else 0 * b)
    residual = torch.from_numpy(b) - product @ x
    ends = {}
    for tolerance in (1e-2, 1e-10):
        for steps in (11, 12, 25, 50):
            enough = torch.tensor(tolerance**2 * (b @ b), dtype=torch.float64)
            (found,) = conjugate_gradients(lambda p: [product @ p[0]], [x], [residual], steps=steps, enough=enough)
            ends[tolerance, steps] = found.numpy()
        assert np.linalg.norm(b - matrix @ ends[tolerance, 50]) <= 1.01 * tolerance * np.linalg.norm(b)
    np.testing.assert_allclose(ends[1e-10, 50], known, rtol=1e-8)
    assert np.linalg.norm(b - matrix @ ends[1e-2, 50]) > 1e-6  # it ended early
    assert (ends[1e-2, 25] == ends[1e-2, 50]).all()  # further steps change no bit
    (same,) = conjugate_gradients(lambda p: p, [x], [0 * residual], steps=3, enough=dot([0 * x], [x]))
    assert torch.equal(same, x)


@pytest.mark.parametrize("around", [lambda inner: inner, lambda inner: wrappers.Lookahead(inner, every=3)])
@pytest.mark.parametrize(
    "make",
    [
        strategies.PastExtragradient,
        lambda: strategies.Competitive(rate=0.5, steps=2),
        lambda: strategies.AlexGDA(gamma=1.7, delta=0.6),
        lambda: strategies.Lead(alpha=0.7),
        lambda: wrappers.Anchoring(strategies.joint),
        lambda: wrappers.Lookahead(wrappers.Lookahead(strategies.joint, every=3), every=6),
    ],
)
def test_what_is_remembered_resumes_to_the_last_bit(make, around):
    def trained(gan, strategy, batches):
        for x in batches:
            strategy(gan, iter([x]), d_steps=1, g_steps=1)
        return state(gan)

    batches = list(itertools.islice(real_batches(), 7))
    gan, strategy = tiny_gan(CASES["minimax"]), around(make())
    trained(gan, strategy, batches[:4])
    kept = copy.deepcopy((gan.state_dict(), strategy.state_dict()))
    whole = trained(gan, strategy, batches[4:])
    ends = []
    for remembers in (True, False):
        gan, strategy = tiny_gan(CASES["minimax"]), around(make())
        gan.load_state_dict(kept[0])
        if remembers:
            strategy.load_state_dict(kept[1])
        ends.append(trained(gan, strategy, batches[4:]))
    assert all(map(torch.equal, whole, ends[0]))
    assert not all(map(torch.equal, whole, ends[1]))
