"""Losses against NumPy, their gradients against finite differences, and what their definitions promise."""

import math

import numpy as np
import pytest
import torch

from ganexp.losses import BEGAN, EBGAN, LSGAN, WGAN, Hinge, Minimax, NonSaturating, RaGAN, RpGAN, SoftmaxGAN

K_T = 0.3


def sp(s):
    return np.logaddexp(0, s)


def ln_z(r, f):
    return np.logaddexp.reduce(np.concatenate([-r, -f]))


NUMPY = {
    # loss: (instance, L_D, L_G)
    "nonsaturating": (NonSaturating, lambda r, f: sp(-r).mean() + sp(f).mean(), lambda r, f: sp(-f).mean()),
    "smoothed": (
        lambda: NonSaturating(smoothing=0.1),
        lambda r, f: (0.9 * sp(-r) + 0.1 * sp(r)).mean() + sp(f).mean(),
        lambda r, f: sp(-f).mean(),
    ),
    "minimax": (Minimax, lambda r, f: sp(-r).mean() + sp(f).mean(), lambda r, f: -sp(f).mean()),
    "lsgan": (LSGAN, lambda r, f: np.mean((r - 1) ** 2) / 2 + np.mean(f**2) / 2, lambda r, f: np.mean((f - 1) ** 2) / 2),
    "hinge": (Hinge, lambda r, f: np.maximum(0, 1 - r).mean() + np.maximum(0, 1 + f).mean(), lambda r, f: -f.mean()),
    "wgan": (WGAN, lambda r, f: f.mean() - r.mean(), lambda r, f: -f.mean()),
    "softmaxgan": (SoftmaxGAN, lambda r, f: r.mean() + ln_z(r, f), lambda r, f: np.concatenate([r, f]).mean() + ln_z(r, f)),
    "ragan": (
        RaGAN,
        lambda r, f: (sp(f.mean() - r).mean() + sp(f - r.mean()).mean()) / 2,
        lambda r, f: (sp(r.mean() - f).mean() + sp(r - f.mean()).mean()) / 2,
    ),
    "rpgan": (RpGAN, lambda r, f: sp(f - r).mean(), lambda r, f: sp(r - f).mean()),
    "ebgan": (lambda: EBGAN(margin=0.4), lambda r, f: r.mean() + np.maximum(0, 0.4 - f).mean(), lambda r, f: f.mean()),
    "began": (lambda: BEGAN(k_0=K_T), lambda r, f: r.mean() - K_T * f.mean(), lambda r, f: f.mean()),
}


def scores(scale=1.0):
    rng = np.random.default_rng(0)
    return scale * rng.normal(size=7), scale * rng.normal(size=7)


def central_difference(function, r, f, which):
    step, gradient = 1e-6, np.zeros(7)
    for i in range(7):
        shift = np.zeros(7)
        shift[i] = step
        plus = function(r + shift, f) if which == 0 else function(r, f + shift)
        minus = function(r - shift, f) if which == 0 else function(r, f - shift)
        gradient[i] = (plus - minus) / (2 * step)
    return gradient


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("name", NUMPY)
def test_values_and_gradients(name, scale):
    make, d_numpy, g_numpy = NUMPY[name]
    loss, (r, f) = make().double(), scores(scale)
    real, fake = torch.tensor(r, requires_grad=True), torch.tensor(f, requires_grad=True)
    assert loss.g_needs_real == (name in ("softmaxgan", "ragan", "rpgan"))
    g_loss = loss.g_loss(real if loss.g_needs_real else None, fake)
    for value, expected in ((loss.d_loss(real, fake), d_numpy), (g_loss, g_numpy)):
        assert value.item() == pytest.approx(expected(r, f), rel=1e-6 if name == "began" else 1e-12)
        gradients = torch.autograd.grad(value, (real, fake), allow_unused=True)
        for which, gradient in enumerate(gradients):
            found = np.zeros(7) if gradient is None else gradient.numpy()
            np.testing.assert_allclose(found, central_difference(expected, r, f, which), rtol=1e-5, atol=3e-8)


@pytest.mark.parametrize("r", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("f", [-1e4, 0.0, 1e4])
def test_softmaxgan_is_finite_at_extreme_scores(r, f):
    real, fake = torch.full((8,), r, requires_grad=True), torch.full((8,), f, requires_grad=True)
    for value in (SoftmaxGAN().d_loss(real, fake), SoftmaxGAN().g_loss(real, fake)):
        assert torch.isfinite(value)
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(value, (real, fake)))


def test_softmaxgans_excess_is_what_lies_above_the_floors():
    same = torch.full((7,), 2.5, dtype=torch.float64)
    excess = SoftmaxGAN().double().measurements(same, same)
    assert excess["softmaxgan/d_excess"].item() == pytest.approx(math.log(2))
    assert excess["softmaxgan/g_excess"].item() == pytest.approx(0, abs=1e-12)


def test_softmaxgan_takes_batches_of_different_sizes():
    r, f = scores()
    value = SoftmaxGAN().d_loss(torch.tensor(r), torch.tensor(f[:3]))
    assert value.item() == pytest.approx(r.mean() + ln_z(r, f[:3]))


def test_k_t_follows_its_recurrence_and_stays_in_the_unit_interval():
    loss, k, rng = BEGAN(gamma=0.7, lambda_k=0.5, k_0=0.1).double(), 0.1, np.random.default_rng(1)
    seen = set()
    for i in range(100):
        r, f = rng.uniform(0, 3, 5), rng.uniform(0, 3 if i < 50 else 1, 5)
        loss.observe(torch.tensor(r), torch.tensor(f))
        k = min(max(k + 0.5 * (0.7 * r.mean() - f.mean()), 0), 1)
        assert loss.k_t.item() == pytest.approx(k, abs=1e-12)
        seen.add(k)
        measured = loss.measurements(torch.tensor(r), torch.tensor(f))
        assert measured["began/k_t"].item() == loss.k_t.item()
        assert measured["began/convergence"].item() == pytest.approx(r.mean() + abs(0.7 * r.mean() - f.mean()))
    assert {0, 1} <= seen
    assert "k_t" in loss.state_dict()


def test_k_0_is_exact_in_each_precision():
    for k_0 in (0.3, 0.1, 1 / 3):
        real, fake = torch.tensor([1.5, 2.5], dtype=torch.float64), torch.tensor([0.5, 1.5], dtype=torch.float64)
        assert BEGAN(k_0=k_0).double().d_loss(real, fake).item() == 2 - k_0
        for loss in (BEGAN(k_0=k_0), BEGAN(k_0=k_0).float()):
            in_float = loss.d_loss(real.float(), fake.float())
            assert in_float.dtype == torch.float32
            assert in_float.item() == np.float32(2) - np.float32(k_0)


@pytest.mark.parametrize("drift", [0.0, 1e3, 1e5, -1e5, 1e30])
def test_softmaxgan_keeps_its_digits_wherever_the_scores_have_drifted(drift):
    """Against float64 at the very scores that float32 holds, whose common part says nothing."""
    real, fake = (torch.linspace(low, low + 3, 32) + drift for low in (-1, 0.5))
    gradients = []
    for dtype in (torch.float32, torch.float64):
        r, f = (scores.to(dtype).requires_grad_() for scores in (real, fake))
        loss = SoftmaxGAN()
        gradients.append([*torch.autograd.grad(loss.d_loss(r, f), (r, f)), *torch.autograd.grad(loss.g_loss(r.detach(), f), f)])
    for found, exact in zip(*gradients, strict=True):
        torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=2e-7)


@pytest.mark.parametrize("name", NUMPY)
def test_what_is_measured_is_declared(name):
    loss, (r, f) = NUMPY[name][0](), scores()
    assert loss.measurements(torch.tensor(r), torch.tensor(f)).keys() == loss.measures.keys()


@pytest.mark.parametrize("make", [RaGAN, RpGAN])
def test_relativistic_losses_are_exact_at_extreme_scores(make):
    loss, far = make(), torch.full((7,), 1e4)
    assert loss.d_loss(-far, far).item() == pytest.approx(2e4)
    assert loss.d_loss(far, -far).item() == 0


def test_rpgan_refuses_what_has_no_pairs():
    with pytest.raises(ValueError, match="there are 7 of one and 1 of the other"):
        RpGAN().d_loss(torch.zeros(7), torch.zeros(1))
