"""Every strategy on the Dirac-GAN (Mescheder et al. 2018), against its recurrence worked out by hand.

The generator is a point θ, the discriminator is ψ·x, the data are 0, both descend by plain gradient steps. With the
minimax loss, D(real) = 0 and L_D = sp(0) + sp(ψθ), L_G = −sp(ψθ), so with σ the logistic function
    dL_D/dψ = θ σ(ψθ),    dL_G/dθ = −ψ σ(ψθ).
"""

import math

import numpy as np
import pytest

from ganexp import strategies, wrappers
from ganexp.losses import WGAN, Minimax
from ganexp.optimizers import NegativeMomentum
from tests.strategies.dirac import RATE_D, RATE_G, REALS, dirac_gan
from tests.tiny import STRATEGIES


def d_step(theta, psi, seen, sigma):
    """Move ψ, having seen fakes at `seen`."""
    return theta, psi - RATE_D * seen * sigma(psi * seen)


def g_step(theta, psi, sigma):
    return theta + RATE_G * psi * sigma(psi * theta), psi


def recurrence(strategy, theta, psi, d_steps, g_steps, sigma):
    if strategy in ("resample", "reuse_z", "detach", "retain_graph"):
        for _ in range(d_steps):
            theta, psi = d_step(theta, psi, theta, sigma)
        for _ in range(g_steps):
            theta, psi = g_step(theta, psi, sigma)
    elif strategy == "g_first_resample":
        for _ in range(g_steps):
            theta, psi = g_step(theta, psi, sigma)
        for _ in range(d_steps):
            theta, psi = d_step(theta, psi, theta, sigma)
    elif strategy == "g_first":
        for _ in range(g_steps):
            old = theta
            theta, psi = g_step(theta, psi, sigma)
        theta, psi = d_step(theta, psi, old, sigma)
        for _ in range(d_steps - 1):
            theta, psi = d_step(theta, psi, theta, sigma)
    elif strategy in ("joint", "one_stage"):
        for i in range(max(d_steps, g_steps)):
            new_theta = g_step(theta, psi, sigma)[0] if i < g_steps else theta
            new_psi = d_step(theta, psi, theta, sigma)[1] if i < d_steps else psi
            theta, psi = new_theta, new_psi
    elif strategy == "extragradient":
        for _ in range(min(d_steps, g_steps)):
            ahead_theta, ahead_psi = theta + RATE_G * psi * sigma(psi * theta), psi - RATE_D * theta * sigma(psi * theta)
            at = sigma(ahead_psi * ahead_theta)
            theta, psi = theta + RATE_G * ahead_psi * at, psi - RATE_D * ahead_theta * at
        for _ in range(d_steps - g_steps):
            theta, psi = d_step(theta, psi, theta, sigma)
        for _ in range(g_steps - d_steps):
            theta, psi = g_step(theta, psi, sigma)
    return theta, psi


RECURRENT = (
    *("resample", "reuse_z", "detach", "retain_graph", "g_first", "g_first_resample"),
    *("joint", "one_stage", "extragradient"),
)


def logistic(score):
    return 1 / (1 + math.exp(-score))


@pytest.mark.parametrize("steps", [(3, 2), (2, 3)])
@pytest.mark.parametrize("strategy", RECURRENT)
def test_recurrence(strategy, steps):
    d_steps, g_steps = steps
    gan, theta, psi = dirac_gan(Minimax()), 1.0, 0.7
    for _ in range(10):
        STRATEGIES[strategy](gan, REALS, d_steps=d_steps, g_steps=g_steps)
        theta, psi = recurrence(strategy, theta, psi, d_steps, g_steps, logistic)
        assert gan.generator.theta.item() == pytest.approx(theta, rel=1e-12)
        assert gan.discriminator.psi.item() == pytest.approx(psi, rel=1e-12)


# On the bilinear game, WGAN's, everything is linear: the distances below contract or grow by known factors.

ETA = math.sqrt(RATE_D * RATE_G)  # after rescaling θ and ψ, both rates are this


def point(gan):
    """Return (θ, ψ), rescaled so that both networks have the same rate, as a complex number."""
    return complex(gan.generator.theta.item() / math.sqrt(RATE_G), gan.discriminator.psi.item() / math.sqrt(RATE_D))


def test_simultaneous_descent_spirals_outwards():
    """θ + iψ is multiplied by 1 − iη each step, whose modulus is √(1 + η²)."""
    gan = dirac_gan(WGAN())
    for _ in range(10):
        before = point(gan)
        strategies.joint(gan, REALS, d_steps=1, g_steps=1)
        assert abs(point(gan)) / abs(before) == pytest.approx(math.sqrt(1 + ETA**2), rel=1e-12)


def test_alternating_descent_stays_on_an_ellipse():
    """θ² + ψ² ± η θψ is conserved: neither closer nor farther, for ever."""
    gan, conserved = dirac_gan(WGAN()), []
    for _ in range(500):
        strategies.detach(gan, REALS, d_steps=1, g_steps=1)
        at = point(gan)
        conserved.append(at.real**2 + at.imag**2 - ETA * at.real * at.imag)
    assert conserved == pytest.approx([conserved[0]] * 500, rel=1e-9)


def test_extragradient_converges_at_the_known_rate():
    """Each step multiplies by 1 − η² − iη, whose modulus is √(1 − η² + η⁴) < 1."""
    gan = dirac_gan(WGAN())
    for _ in range(10):
        before = point(gan)
        strategies.Extragradient()(gan, REALS, d_steps=1, g_steps=1)
        assert point(gan) / before == pytest.approx(1 - ETA**2 - 1j * ETA, rel=1e-12)


@pytest.mark.parametrize(("every", "alpha"), [(5, 0.5), (3, 0.25), (1, 1.0)])
def test_lookahead_around_joint_follows_its_closed_form(every, alpha):
    """`every` steps of joint, then part of the way back: 1 − α + α (1 − iη)^every."""
    gan, strategy = dirac_gan(WGAN()), wrappers.Lookahead(strategies.joint, every=every, alpha=alpha)
    factor = 1 - alpha + alpha * (1 - 1j * ETA) ** every
    for _ in range(10):
        before = point(gan)
        for _ in range(every):
            strategy(gan, REALS, d_steps=1, g_steps=1)
        assert point(gan) / before == pytest.approx(factor, rel=1e-11)
    assert (abs(factor) < 1) == (alpha < 1)


@pytest.mark.parametrize(("k", "rate"), [(0, 0.1), (1, 0.1), (5, 0.3)])
def test_unrolled_follows_its_recurrence(k, rate):
    """K steps lead to ψ − kρθ, so L_G = −(ψ − kρθ)θ and dL_G/dθ = −ψ + 2kρθ, while D moves as in joint."""
    gan, theta, psi = dirac_gan(WGAN()), 1.0, 0.7
    for _ in range(20):
        strategies.Unrolled(k=k, rate=rate)(gan, REALS, d_steps=1, g_steps=1)
        theta, psi = theta - RATE_G * (-psi + 2 * k * rate * theta), psi - RATE_D * theta
        assert gan.generator.theta.item() == pytest.approx(theta, rel=1e-11)
        assert gan.discriminator.psi.item() == pytest.approx(psi, rel=1e-11)


@pytest.mark.parametrize("beta", [-0.5, 0.0, 0.5])
def test_negative_momentum_lets_alternating_descent_converge(beta):
    """Gidel et al. 2019: on the bilinear game, alternating descent contracts for β < 0, and for no other."""
    move_psi = np.array([[1, 0, 0, 0], [-RATE_D, 1, 0, beta], [0, 0, 1, 0], [-RATE_D, 0, 0, beta]])  # (θ, ψ, v_θ, v_ψ)
    move_theta = np.array([[1, RATE_G, beta, 0], [0, 1, 0, 0], [0, RATE_G, beta, 0], [0, 0, 0, 1]])
    iteration = move_theta @ move_psi
    gan = dirac_gan(WGAN(), lambda parameters, lr: NegativeMomentum(parameters, lr=lr, momentum=beta))
    at = np.array([1.0, 0.7, 0.0, 0.0])
    for _ in range(100):
        strategies.detach(gan, REALS, d_steps=1, g_steps=1)
        at = iteration @ at
    assert [gan.generator.theta.item(), gan.discriminator.psi.item()] == pytest.approx(at[:2], rel=1e-9)
    radius = np.abs(np.linalg.eigvals(iteration)).max()
    assert radius < 1 - 1e-3 if beta < 0 else radius > 1 - 1e-9
