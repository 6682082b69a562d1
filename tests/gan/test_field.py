"""Products with the Jacobian of v = (∇_ψ L_D, ∇_θ L_G), against finite differences of the v that `joint` takes."""

import pytest
import torch
from torch import nn

from ganexp import GAN, Batch, Prior, strategies, wrappers
from ganexp.gan import dot
from ganexp.losses import WGAN, NonSaturating
from ganexp.penalties import R2, Dragan, GradientPenalty, Sum, WeightClipping
from tests.tiny import CASES, Case, real_batches, tiny_gan

STEP = 1e-6
PENALISED = {
    "r2": Case(NonSaturating, R2),  # looks at fakes alone, so that it moves with G
    "dragan": Case(NonSaturating, Dragan),
    "gradient penalty": Case(NonSaturating, GradientPenalty),
}


def moved(parameters, direction, by):
    with torch.no_grad():
        torch._foreach_add_(parameters, direction, alpha=by)


@pytest.mark.parametrize("name", [*CASES, *PENALISED])
def test_products_are_finite_differences_of_v(name):
    gan, x = tiny_gan({**CASES, **PENALISED}[name]), Batch(next(real_batches()))
    z, parameters = gan.sample(), [*gan.discriminator.parameters(), *gan.generator.parameters()]
    draws = gan.penalty.state_dict()

    def v():
        gan.penalty.load_state_dict(draws)
        d, g = gan.gradients(*gan.losses(x, gan.generate(z)))
        return [*d, *g]

    def derivative(direction):
        """Return J · direction."""
        moved(parameters, direction, STEP)
        ahead = v()
        moved(parameters, direction, -2 * STEP)
        behind = v()
        moved(parameters, direction, STEP)
        return torch._foreach_div(torch._foreach_sub(ahead, behind), 2 * STEP)

    gan.penalty.load_state_dict(draws)
    field = gan.field(*gan.losses_of_both(x, gan.generate(z)))
    torch.testing.assert_close(field.vector, v(), rtol=1e-13, atol=1e-15)
    torch.manual_seed(1)
    u = [torch.randn_like(p) for p in parameters]
    transposed, along = field.both(u)
    (of_d, of_g), zero = field.split(u), field.split([*map(torch.zeros_like, u)])
    halves = field.d_along_g(of_g), field.g_along_d(of_d)
    torch.testing.assert_close(transposed, field.transposed(u), rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(along, derivative(u), rtol=1e-6, atol=2e-8)
    torch.testing.assert_close(halves[0], field.split(derivative([*zero[0], *of_g]))[0], rtol=1e-6, atol=2e-8)
    torch.testing.assert_close(halves[1], field.split(derivative([*of_d, *zero[1]]))[1], rtol=1e-6, atol=2e-8)
    for _ in range(5):
        direction = [torch.randn_like(p) for p in parameters]
        assert dot(transposed, direction).item() == pytest.approx(dot(u, derivative(direction)).item(), rel=1e-6, abs=1e-7)


def gan_of(generator, discriminator, loss=None, **settings):
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (generator, discriminator)]
    return GAN(generator, discriminator, loss or NonSaturating(), *optimizers, Prior(3), batch_size=4, **settings)


REALS = iter(lambda: torch.ones(4, 2), None)


class Unused(nn.Module):
    """A discriminator with a weight that no score depends on."""

    def __init__(self):
        super().__init__()
        self.first, self.never, self.last = nn.Linear(2, 3), nn.Parameter(torch.ones(2)), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.first(x).tanh()).flatten()


@pytest.mark.parametrize("strategy", [strategies.Consensus(), strategies.Symplectic(), strategies.Competitive(rate=0.1)])
def test_what_no_gradient_reaches_stays_and_what_is_frozen_too(strategy):
    gan = gan_of(nn.Linear(3, 2), Unused(), WGAN())
    gan.discriminator.first.weight.requires_grad_(False)
    before = [p.clone() for p in gan.discriminator.parameters()]
    for _ in range(2):
        strategy(gan, REALS, d_steps=1, g_steps=1)
    same = [torch.equal(a, b) for a, b in zip(before, gan.discriminator.parameters(), strict=True)]
    assert same == [True, True, False, False, True]  # never, first.weight, first.bias, last.weight; WGAN moves no last bias
    gan.discriminator.first.weight.requires_grad_(True)
    strategy(gan, REALS, d_steps=1, g_steps=1)
    assert not torch.equal(before[1], gan.discriminator.first.weight)


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return 2 * gradient


class DifferentiatedOnce(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x):
        return Once.apply(self.layer(x)).flatten().tanh()


def test_a_layer_without_a_second_derivative_is_refused_in_a_sentence():
    gan = gan_of(nn.Linear(3, 2), DifferentiatedOnce())
    strategies.joint(gan, REALS, d_steps=1, g_steps=1)
    for twice in (strategies.Consensus(), strategies.Unrolled(k=1), wrappers.LatentStep(strategies.joint)):
        with pytest.raises(ValueError, match=r"^a layer of a network cannot be differentiated twice \(.*: choose one that can"):
            twice(gan, REALS, d_steps=1, g_steps=1)


@pytest.mark.parametrize(
    "penalty", [GradientPenalty(), Sum(parts={"a": R2(every=2), "b": WeightClipping()})], ids=["one", "several"]
)
def test_a_penalty_on_such_a_layer_is_refused_too(penalty):
    """Autograd would take the gradient for a constant, and train D as if there were no penalty."""
    gan = gan_of(nn.Linear(3, 2), DifferentiatedOnce(), penalty=penalty)
    with pytest.raises(ValueError, match=r"^a layer of a network cannot be differentiated twice .*such as joint and none"):
        strategies.detach(gan, REALS, d_steps=1, g_steps=1)


def test_layers_are_looked_at_once_also_inside_a_wrapper(monkeypatch):
    looked = []
    monkeypatch.setattr("ganexp.gan.game.refuse_once_differentiable", lambda gradients: looked.append(len(gradients)))
    gan, reals = tiny_gan(CASES["hinge"]), real_batches()
    wrapped = wrappers.TopK(strategies.Consensus(), nu=0.5)
    for _ in range(3):
        wrapped(gan, reals, d_steps=1, g_steps=1)
    assert len(looked) == 1
