"""Strategies on the Dirac-GAN (Mescheder et al. 2018), against recurrences worked out by hand.

The generator is a point θ, the discriminator is ψ·x, the data are 0. With the minimax loss L_G = −sp(ψθ) and
L_D = sp(0) + sp(ψθ), v and its Jacobian are written out. Known rates on the bilinear game are in `test_further_rules.py`.
"""

import math

import numpy as np
import pytest

from ganexp import strategies
from ganexp.losses import WGAN, Minimax
from tests.strategies.dirac import RATE_D, RATE_G, REALS, dirac_gan


@pytest.mark.parametrize(("k", "rate"), [(0, 0.1), (1, 0.1), (5, 0.3)])
def test_unrolled_follows_its_recurrence(k, rate):
    """Of WGAN's loss, K steps lead to ψ − kρθ, so L_G = −(ψ − kρθ)θ and dL_G/dθ = −ψ + 2kρθ, while D moves as in joint."""
    gan, theta, psi = dirac_gan(WGAN()), 1.0, 0.7
    for _ in range(20):
        strategies.Unrolled(k=k, rate=rate)(gan, REALS, d_steps=1, g_steps=1)
        theta, psi = theta - RATE_G * (-psi + 2 * k * rate * theta), psi - RATE_D * theta
        assert gan.generator.theta.item() == pytest.approx(theta, rel=1e-11)
        assert gan.discriminator.psi.item() == pytest.approx(psi, rel=1e-11)


def at(gan):
    return np.array([gan.generator.theta.item(), gan.discriminator.psi.item()])


def v_and_j(theta, psi):
    """Return v and its Jacobian on the Dirac-GAN, θ first."""
    s = 1 / (1 + math.exp(-psi * theta))
    derivative = s * (1 - s)
    v = np.array([-psi * s, theta * s])
    cross = s + psi * theta * derivative
    return v, np.array([[-(psi**2) * derivative, -cross], [cross, theta**2 * derivative]])


def consensus(w):
    v, j = v_and_j(*w)
    return v + 0.8 * j.T @ v


def symplectic(w):
    v, j = v_and_j(*w)
    a = (j - j.T) / 2
    sign = np.sign((v @ j.T @ v) * ((a.T @ v) @ (j.T @ v)) / 2 + 0.1)
    return v + 0.8 * sign * a.T @ v


def competitive(w):
    """Each rate goes with the player whose step is expected."""
    v, j = v_and_j(*w)
    # x = v_θ − η_ψ D_θψ y and y = v_ψ + η_θ D_ψθ x, with D_θψ = J_θψ and D_ψθ = J_θψ, as one system
    return np.linalg.solve(np.array([[1, RATE_D * j[0, 1]], [-RATE_G * j[0, 1], 1]]), v)


MOVES = {
    "consensus": (consensus, strategies.Consensus(gamma=0.8)),
    "symplectic": (symplectic, strategies.Symplectic(strength=0.8)),
    "competitive": (competitive, strategies.Competitive()),
}


@pytest.mark.parametrize("steps", [(1, 1), (3, 1), (1, 2)])
@pytest.mark.parametrize("name", MOVES)
def test_the_dirac_gan_follows_the_formula(name, steps):
    replaced, strategy = MOVES[name]
    gan, (d_steps, g_steps), rates = dirac_gan(Minimax()), steps, np.array([RATE_G, RATE_D])
    w = at(gan)
    for _ in range(15):
        strategy(gan, REALS, d_steps=d_steps, g_steps=g_steps)
        w = w - rates * replaced(w)
        for _ in range(d_steps - 1):
            w = w - rates * v_and_j(*w)[0] * [0, 1]
        for _ in range(g_steps - 1):
            w = w - rates * v_and_j(*w)[0] * [1, 0]
        np.testing.assert_allclose(at(gan), w, rtol=1e-11)


@pytest.mark.parametrize("steps", [(1, 1), (3, 2)])
def test_past_extragradient_on_the_dirac_gan(steps):
    gan, strategy, (d_steps, g_steps) = dirac_gan(Minimax()), strategies.PastExtragradient(), steps
    w, past, rates = at(gan), np.zeros(2), np.array([RATE_G, RATE_D])
    for _ in range(15):
        strategy(gan, REALS, d_steps=d_steps, g_steps=g_steps)
        for _ in range(g_steps):
            past = v_and_j(*(w - rates * past))[0]
            w = w - rates * past
        for _ in range(d_steps - g_steps):
            w = w - rates * v_and_j(*w)[0] * [0, 1]
        np.testing.assert_allclose(at(gan), w, rtol=1e-12)


def test_alignment_turns_the_adjustment_where_the_formula_does():
    """With both signs among the points, so that a wrong one would show."""
    signs = set()
    for theta, psi in np.random.default_rng(0).normal(scale=12, size=(40, 2)):
        gan = dirac_gan(Minimax())
        gan.generator.theta.data.fill_(theta)
        gan.discriminator.psi.data.fill_(psi)
        v, j = v_and_j(theta, psi)
        a = (j - j.T) / 2
        signs.add(np.sign((v @ j.T @ v) * ((a.T @ v) @ (j.T @ v)) / 2 + 0.1))
        expected = at(gan) - np.array([RATE_G, RATE_D]) * symplectic(at(gan))
        strategies.Symplectic(strength=0.8)(gan, REALS, d_steps=1, g_steps=1)
        np.testing.assert_allclose(at(gan), expected, rtol=1e-9)
    assert signs == {-1.0, 1.0}
