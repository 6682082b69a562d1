"""Strategies on the Dirac-GAN (Mescheder et al. 2018), a point θ that is scored by ψ·x, beside data at 0, worked out by hand.

Known rates on its bilinear game, with WGAN's loss, are in `test_further_rules.py`, and lookahead's in `test_anchoring.py`.
"""

import math

import numpy as np
import pytest

from ganexp import strategies
from ganexp.losses import WGAN, Minimax
from tests.strategies.dirac import RATE_D, RATE_G, REALS, dirac_gan


@pytest.mark.parametrize(("k", "rate"), [(0, 0.1), (1, 0.1), (5, 0.3)])
def test_unrolled_follows_its_recurrence(k, rate):
    """K steps lead to ψ − kρθ, so L_G = −(ψ − kρθ)θ and dL_G/dθ = −ψ + 2kρθ, while D moves as in joint."""
    gan, theta, psi = dirac_gan(WGAN()), 1.0, 0.7
    for _ in range(20):
        strategies.Unrolled(k=k, rate=rate)(gan, REALS, d_steps=1, g_steps=1)
        theta, psi = theta - RATE_G * (-psi + 2 * k * rate * theta), psi - RATE_D * theta
        assert gan.generator.theta.item() == pytest.approx(theta, rel=1e-11)
        assert gan.discriminator.psi.item() == pytest.approx(psi, rel=1e-11)


def v_and_j(theta, psi):
    """Return v and its Jacobian, θ first, where L_G = −sp(ψθ) and L_D = sp(0) + sp(ψθ)."""
    s = 1 / (1 + math.exp(-psi * theta))
    derivative = s * (1 - s)
    v = np.array([-psi * s, theta * s])
    cross = s + psi * theta * derivative
    return v, np.array([[-(psi**2) * derivative, -cross], [cross, theta**2 * derivative]])


def test_alignment_turns_the_adjustment_of_symplectic_where_the_formula_does():
    """With both signs among the points, so that a wrong one would show."""
    signs = set()
    for theta, psi in np.random.default_rng(0).normal(scale=12, size=(40, 2)):
        gan, (v, j) = dirac_gan(Minimax()), v_and_j(theta, psi)
        gan.generator.theta.data.fill_(theta)
        gan.discriminator.psi.data.fill_(psi)
        adjustment = (j - j.T).T @ v / 2
        signs.add(sign := np.sign((v @ j.T @ v) * (adjustment @ j.T @ v) / 2 + 0.1))
        strategies.Symplectic(strength=0.8)(gan, REALS, d_steps=1, g_steps=1)
        moved = [gan.generator.theta.item(), gan.discriminator.psi.item()]
        expected = np.array([theta, psi]) - [RATE_G, RATE_D] * (v + 0.8 * sign * adjustment)
        np.testing.assert_allclose(moved, expected, rtol=1e-9)
    assert signs == {-1.0, 1.0}
