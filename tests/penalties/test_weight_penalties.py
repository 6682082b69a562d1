"""Penalties and bounds on D's weights, against NumPy's singular values and finite differences."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from ganexp import strategies
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.losses import NonSaturating
from ganexp.networks import MLPDiscriminator
from ganexp.penalties import Orthogonal, Spectral, Sum, WeightClipping
from ganexp.penalties.weights import largest_square
from ganexp.strategies.unrolled import unroll
from tests.composing import composed
from tests.small_runs import NARROW
from tests.tiny import Case, derivative, descend, real_batches, state, tiny_gan

NOTHING = torch.zeros(0)


def network(spectral=False):
    torch.manual_seed(1)
    layers = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ConvTranspose2d(3, 4, 2), nn.Conv2d(4, 2, 3, groups=2), nn.Linear(2, 5)
    for layer in layers:
        if spectral and not isinstance(layer, nn.BatchNorm2d):
            spectral_norm(layer, dim=1 if isinstance(layer, nn.ConvTranspose2d) else 0)
    return nn.Sequential(*layers).double()


def in_numpy(made):
    weights = [layer.weight.detach().numpy() for layer in made if not isinstance(layer, nn.BatchNorm2d)]
    weights[1] = weights[1].swapaxes(0, 1)
    return [weight.reshape(len(weight), -1) for weight in weights]


def by_numpy(penalty, made):
    if penalty is Spectral:
        return sum(np.linalg.norm(w, 2) ** 2 for w in in_numpy(made)) / 2
    return sum(np.square(w @ w.T * (1 - np.eye(len(w)))).sum() for w in in_numpy(made))


@pytest.mark.parametrize("penalty", [Spectral, Orthogonal])
def test_values_and_gradients_are_numpys(penalty):
    made = network()
    term = penalty(weight=0.3).term(made, NOTHING, NOTHING)
    assert term.item() == pytest.approx(0.3 * by_numpy(penalty, made), rel=1e-12)
    parameters = [p for p in made.parameters() if p.dim() > 1]
    gradients = torch.autograd.grad(term, parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        direction = torch.randn_like(parameter)
        known = derivative(lambda: 0.3 * by_numpy(penalty, made), [parameter], [direction])
        assert (gradient * direction).sum().item() == pytest.approx(known, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("shape", [(300, 40), (40, 300), (64, 64), (1, 9)])
def test_the_largest_singular_value_is_linalgs_in_float32_too(shape):
    matrix = torch.randn(shape)
    expected = np.linalg.norm(matrix.double().numpy(), 2) ** 2
    assert largest_square(matrix).item() == pytest.approx(expected, rel=2e-4)
    assert largest_square(matrix * 1e-12).item() == pytest.approx(1e-24 * expected, rel=2e-4)


def test_equal_largest_singular_values_and_weights_of_zero():
    turn = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64))[0]
    assert largest_square(3 * turn).item() == pytest.approx(9, rel=1e-12)
    zero = torch.zeros(3, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(largest_square(zero), zero)
    assert not gradient.any()


def test_a_weight_with_spectral_norm_is_the_one_that_the_layer_computes_with():
    made = network(spectral=True)
    made[0](torch.randn(1, 2, 5, 5, dtype=torch.float64))
    before = {name: buffer.clone() for name, buffer in made.named_buffers()}
    value = Orthogonal(weight=1.0).term(made, NOTHING, NOTHING)
    assert all(torch.equal(buffer, before[name]) for name, buffer in made.named_buffers())
    assert made.training
    assert all(module.training for module in made.modules())
    assert value.item() == pytest.approx(by_numpy(Orthogonal, made.eval()), rel=1e-12)
    with pytest.raises(ValueError, match="spectral norm holds at 1"):
        Spectral().term(made, NOTHING, NOTHING)


def test_frozen_weights_have_no_part_and_hooks_are_refused():
    made = network().requires_grad_(False)
    assert Orthogonal().term(made, NOTHING, NOTHING) is None
    made[4].requires_grad_()
    weight = made[4].weight.detach().numpy()
    value = Spectral(weight=2.0).term(made, NOTHING, NOTHING)
    assert value.item() == pytest.approx(np.linalg.norm(weight, 2) ** 2, rel=1e-12)
    hooked = nn.utils.spectral_norm(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="the weight of a Linear is made by a hook"):
        Orthogonal().term(hooked, NOTHING, NOTHING)
    with pytest.raises(ValueError, match="needs a discriminator that is a module"):
        Orthogonal().term(lambda x: x, NOTHING, NOTHING)


@pytest.mark.parametrize("penalty", [Spectral, Orthogonal])
def test_a_discriminator_with_other_weights_is_penalised_for_those(penalty):
    """Unrolled by plain descent of the penalty alone, it is where the same steps lead a module."""
    torch.manual_seed(2)
    discriminator, one = MLPDiscriminator((2,), width=4).double(), penalty(weight=1.0)
    ahead = unroll(discriminator, lambda d: one.term(d, NOTHING, NOTHING), k=3, rate=0.05)
    unmoved = one.term(discriminator, NOTHING, NOTHING).item()
    value = one.term(ahead, NOTHING, NOTHING)
    for _ in range(3):
        gradients = torch.autograd.grad(
            one.term(discriminator, NOTHING, NOTHING), list(discriminator.parameters()), allow_unused=True
        )
        for parameter, gradient in zip(discriminator.parameters(), gradients, strict=True):
            parameter.data.sub_(0 if gradient is None else 0.05 * gradient)
    assert value.item() == pytest.approx(one.term(discriminator, NOTHING, NOTHING).item(), rel=1e-12)
    assert value.item() < unmoved


def test_unrolled_differentiates_through_orthogonal_weights():
    strategy = strategies.Unrolled(k=3, rate=0.05)
    gan = tiny_gan(Case(NonSaturating, lambda: Orthogonal(weight=2.0)))
    x, z = next(real_batches()), gan.sample()

    def value():
        return strategy.g_loss(gan, x, gan.generate(z)).value

    weights = list(gan.generator.parameters())
    gradients, directions = torch.autograd.grad(value(), weights), [torch.randn_like(p) for p in weights]
    along = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True)).item()
    assert along == pytest.approx(derivative(value, weights, directions, 1e-5), rel=1e-5)


def test_a_plain_loop_with_both_one_of_them_lazy():
    gan, loop = (
        tiny_gan(Case(NonSaturating, lambda: Sum(parts={"a": Spectral(weight=0.1, every=2), "b": Orthogonal(weight=0.01)})))
        for _ in "ab"
    )
    reals, plain = real_batches(), real_batches()
    for i in range(4):
        strategies.detach(gan, reals, d_steps=1, g_steps=1)
        x, fake = next(plain), loop.generator(loop.sample().values)
        loss = loop.loss.d_loss(loop.discriminator(x), loop.discriminator(fake.detach()))
        for weight in (p for p in loop.discriminator.parameters() if p.dim() == 2):
            loss = loss + 0.01 * (weight @ weight.T).fill_diagonal_(0).square().sum()
            loss = loss + (0 if i % 2 else 2 * 0.1 / 2 * torch.linalg.svdvals(weight)[0] ** 2)
        descend(loop.optimizer_d, loss)
        descend(loop.optimizer_g, loop.loss.g_loss(None, loop.discriminator(fake)))
    torch.testing.assert_close(state(gan), state(loop), rtol=1e-11, atol=1e-12)


def test_spectral_norm_and_spectral_regularisation_exclude_each_other():
    with pytest.raises(UserError, match=r"choose discriminator\.spectral_norm=false, or another penalty"):
        check(composed(*NARROW, "penalty=spectral", "discriminator.spectral_norm=true"))
    check(composed(*NARROW, "penalty=orthogonal", "discriminator.spectral_norm=true", "strategy=unrolled"))
    check(composed(*NARROW, "penalty=orthogonal", "loss=began", "discriminator=began", "generator=began", "compile=true"))


def test_frozen_weights_are_not_clipped():
    discriminator = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    discriminator[0].requires_grad_(False).weight.fill_(5.0)
    discriminator[1].weight.data.fill_(5.0)
    WeightClipping(bound=0.1).constrain(discriminator)
    assert discriminator[0].weight.unique().item() == 5.0
    assert discriminator[1].weight.unique().item() == pytest.approx(0.1)
