"""Strategies from game theory on games with two numbers, against what their papers' formulae give by hand.

On the bilinear game L_G = −aθψ = −L_D a step multiplies the distance from equilibrium by a factor known in closed form. On the
Dirac-GAN, L_G = −sp(ψθ) and L_D = sp(0) + sp(ψθ), v and its Jacobian are written out.
"""

import cmath
import math

import numpy as np
import pytest
import torch

from ganexp import strategies
from ganexp.losses import WGAN, Minimax
from tests.strategies.dirac import RATE_D, RATE_G, REALS, Slope, dirac_gan

ETA, A = 0.2, 1.7


class Steep(Slope):
    def forward(self, x):
        return A * super().forward(x)


def bilinear():
    """Return the bilinear game, with plain descent at rate η."""
    gan = dirac_gan(WGAN(), lambda parameters, lr: torch.optim.SGD(parameters, lr=ETA))
    gan.discriminator.__class__ = Steep
    return gan


def at(gan):
    return np.array([gan.generator.theta.item(), gan.discriminator.psi.item()])


def factors(strategy, iterations=15):
    gan, distances = bilinear(), []
    for _ in range(iterations):
        distances.append(np.linalg.norm(at(gan)))
        strategy(gan, REALS, d_steps=1, g_steps=1)
    return np.array([*distances[1:], np.linalg.norm(at(gan))]) / distances


@pytest.mark.parametrize("coefficient", [0.0, 0.5, 2.0])
def test_consensus_and_symplectic_contract_alike_at_the_known_rate(coefficient):
    known = math.sqrt((1 - ETA * coefficient * A**2) ** 2 + (ETA * A) ** 2)
    for strategy in (strategies.Consensus(gamma=coefficient), strategies.Symplectic(strength=coefficient)):
        np.testing.assert_allclose(factors(strategy), known, rtol=1e-12)


@pytest.mark.parametrize("rate", [None, ETA])
def test_competitive_contracts_at_the_known_rate(rate):
    np.testing.assert_allclose(factors(strategies.Competitive(rate=rate)), 1 / math.sqrt(1 + (ETA * A) ** 2), rtol=1e-12)


def test_past_extragradient_follows_the_roots_of_its_two_step_recurrence():
    """Of what is seen ahead, zₜ₊₁ = zₜ − 2ηJ zₜ + ηJ zₜ₋₁, so μ² = (1 − 2iηa) μ + iηa; and zₜ₊₁ = wₜ₊₁ − ηJ zₜ."""
    gan, strategy = bilinear(), strategies.PastExtragradient()
    root = cmath.sqrt(1 - 4 * (ETA * A) ** 2)
    first, second = ((1 - 2j * ETA * A + sign * root) / 2 for sign in (1, -1))
    w = complex(*at(gan))  # J turns θ + iψ by i·a
    z = [w, w * (1 - 2j * ETA * A)]  # the first iteration looks nowhere, the second along what that one saw
    b = (z[1] - first * z[0]) / (second - first)
    seen = [(z[0] - b) * first**t + b * second**t for t in range(40)]
    for t in range(40):
        strategy(gan, REALS, d_steps=1, g_steps=1)
        w = w - 1j * ETA * A * seen[t]
        assert complex(*at(gan)) == pytest.approx(w, rel=1e-10)
    rate = math.sqrt((1 + math.sqrt(1 - 4 * (ETA * A) ** 2)) / 2)
    assert abs(first) == pytest.approx(rate, rel=1e-12)
    np.testing.assert_allclose(factors(strategies.PastExtragradient(), 60)[-1], rate, rtol=1e-8)


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
