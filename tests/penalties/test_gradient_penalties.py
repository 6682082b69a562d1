"""Penalties on D's gradient: closed forms, another differentiation, and every strategy."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import grad, vmap

from ganexp import Batch, strategies
from ganexp.losses import NonSaturating, RpGAN
from ganexp.networks import MLPDiscriminator
from ganexp.penalties import R1, R1R2, R2, DivergencePenalty, Dragan, GradientPenalty, LipschitzPenalty, OneCentred
from tests.tiny import STRATEGIES, Case, derivative, real_batches, tiny_gan, train

CLOSED = {
    # name: (penalty, value at real and fake points of which D's gradients have the norms r and f)
    "r1": (R1, lambda r, f: r**2 / 2),
    "r2": (R2, lambda r, f: f**2 / 2),
    "r1r2": (R1R2, lambda r, f: (r**2 + f**2) / 2),
    "one_centred": (OneCentred, lambda r, f: (r - 1) ** 2),
}
BETWEEN = {
    # name: (penalty, value where D's gradient has the norm n)
    "gradient_penalty": (GradientPenalty, lambda n: (n - 1) ** 2),
    "wgan_lp": (LipschitzPenalty, lambda n: np.maximum(0, n - 1) ** 2),
    "wgan_div": (DivergencePenalty, lambda n: n**6),
    "wgan_div, p = 3": (lambda: DivergencePenalty(power=3), lambda n: n**3),
}
ALL = {name: row[0] for name, row in (CLOSED | BETWEEN).items()} | {"dragan": Dragan}
every_penalty = pytest.mark.parametrize("name", ALL)


def begun(penalty):
    penalty.begin(0, torch.device("cpu"))
    return penalty


def bowl(x):
    """Score by a function that slopes more on all sides."""
    return x.square().sum(1)


def points(seed=0):
    return torch.randn(40, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_dragan_looks_at_reals_with_its_noise():
    seen = []

    def discriminator(images):
        seen.append(images.detach())
        return images.square().sum((1, 2, 3)) / 2

    x = 3 * torch.randn(400, 1, 4, 4, dtype=torch.float64) + 5
    values = begun(Dragan(noise=0.8))(discriminator, Batch(x), Batch(x[:7]))
    np.testing.assert_allclose(values.detach().numpy(), (np.linalg.norm(seen[0].flatten(1), axis=1) - 1) ** 2, rtol=1e-12)
    noise = ((seen[0] - x) / (0.8 * np.std(x.numpy()))).flatten(1)  # α · u
    largest = noise.amax(1)
    assert 0 <= noise.min() <= largest.max() <= 1
    assert noise.mean().item() == pytest.approx(0.25, abs=0.02)
    assert largest.mean().item() == pytest.approx(0.5 * 16 / 17, abs=0.05)  # of 16 uniform numbers, times α
    assert (largest < 0.1).any()


@every_penalty
def test_values_are_those_of_the_slope_at_each_sample_and_differentiate(name):
    """Against torch.func's per-sample gradients, and the weights' gradient against a finite difference."""
    torch.manual_seed(0)
    discriminator = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0)).double()
    discriminator[2].weight.data.mul_(5)  # so that slopes lie on both sides of 1
    x, fake, seen = points(), points(1), []

    def watched(values):
        seen.append(values.detach())
        return discriminator(values)

    values = begun(ALL[name]())(watched, Batch(x), Batch(fake))
    slopes = vmap(grad(lambda one: discriminator(one[None])[0]))
    r, f, n = (slopes(at).detach().norm(dim=1).numpy() for at in (x, fake, seen[0]))
    assert n.min() < 1 < n.max()
    expected = CLOSED[name][1](r, f) if name in CLOSED else (n - 1) ** 2 if name == "dragan" else BETWEEN[name][1](n)
    assert not x.requires_grad
    assert not fake.requires_grad
    np.testing.assert_allclose(values.detach().numpy(), expected, rtol=1e-11)
    weights = list(discriminator.parameters())[:3]  # no last bias: scores are not penalised
    direction = [torch.randn_like(p) for p in weights]
    analytic = sum((g * d).sum() for g, d in zip(torch.autograd.grad(values.mean(), weights), direction, strict=True))

    def mean():
        return begun(ALL[name]())(discriminator, Batch(x), Batch(fake)).mean()

    assert analytic.item() == pytest.approx(derivative(mean, weights, direction), rel=1e-6)


@every_penalty
def test_a_term_is_the_weighted_mean(name):
    x = points()
    penalty = begun(ALL[name]())
    term = penalty.term(bowl, x, x)
    assert term.item() == pytest.approx(penalty.weight * begun(penalty)(bowl, Batch(x), Batch(x)).mean().item())
    assert term > 0


def ends_of(strategy, name):
    return train(tiny_gan(Case(NonSaturating, ALL[name])), STRATEGIES[strategy], 3, d_steps=2)


@every_penalty
def test_strategies_stay_the_same_algorithms(name):
    detach, joint = ends_of("detach", name), ends_of("joint", name)
    assert all(torch.equal(a, b) for a, b in zip(detach, ends_of("retain_graph", name), strict=True))
    torch.testing.assert_close(detach, ends_of("reuse_z", name), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(joint, ends_of("one_stage", name), rtol=1e-10, atol=1e-11)
    assert any((a - b).abs().max() > 1e-6 for a, b in zip(detach, joint, strict=True))


def after_plain_steps(gan, x, fake, *, k, rate):
    """Return G's loss after `k` plain steps of a copy of D on its penalised loss."""
    discriminator = copy.deepcopy(gan.discriminator)
    begun(gan.penalty)
    for _ in range(k):
        objective = gan.loss.d_loss(discriminator(x), discriminator(fake)) + gan.penalty.term(discriminator, x, fake)
        weights = list(discriminator.parameters())
        for p, gradient in zip(weights, torch.autograd.grad(objective, weights), strict=True):
            p.data.sub_(rate * gradient)
    return gan.loss.g_loss(discriminator(x), discriminator(fake)).item()


@pytest.mark.parametrize("loss", [NonSaturating, RpGAN])
@every_penalty
def test_unrolled_steps_are_differentiated_through_the_penalty(name, loss):
    gan = tiny_gan(Case(loss, ALL[name], lambda: nn.Sequential(MLPDiscriminator((2,), width=5, depth=2), nn.Softplus())))
    x, z, unrolled = next(real_batches()), gan.sample(), strategies.Unrolled(k=2, rate=0.05)

    def value():
        begun(gan.penalty)
        return unrolled.g_loss(gan, Batch(x), gan.generate(z)).value

    plain = after_plain_steps(gan, x, gan.generate(z).values.detach(), k=2, rate=0.05)
    assert value().item() == pytest.approx(plain, rel=1e-12)
    weights = list(gan.generator.parameters())
    direction = [torch.randn_like(p) for p in weights]
    known = sum((g * d).sum() for g, d in zip(torch.autograd.grad(value(), weights), direction, strict=True)).item()
    assert known == pytest.approx(derivative(value, weights, direction), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("make", [R1R2, GradientPenalty, LipschitzPenalty])
def test_batches_that_cannot_be_paired_are_refused(make):
    with pytest.raises(ValueError, match=r"pairs real with fake, but their shapes are \(2, 3\) and \(1, 3\)"):
        begun(make())(bowl, Batch(torch.zeros(2, 3)), Batch(torch.zeros(1, 3)))
