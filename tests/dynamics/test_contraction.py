"""What rules do on quadratic games, against their closed forms."""

import cmath
import math

import pytest

from ganexp import strategies, wrappers
from ganexp.dynamics import contraction

RATE = 0.3
EIGENVALUE = 0.4 + 1.2j


def simultaneous(x):
    return abs(1 - x)


def alternating(x):
    """D first: ψ⁺ = (1 − p)ψ − qθ, θ⁺ = (1 − p)θ + qψ⁺, with ηλ = p + iq."""
    p, q = x.real, x.imag
    return largest(2 * (1 - p) - q * q, (1 - p) ** 2)


def extragradient(x):
    return abs(1 - x + x * x)


def optimistic(x):
    """Of what is seen ahead, μ² = (1 − 2x) μ + x, and its complex conjugate."""
    return largest(1 - 2 * x, -x)


def consensus(x):
    return abs(1 - x - 0.5 / RATE * abs(x) ** 2)


def looked_ahead(x):
    return abs(0.5 + 0.5 * (1 - x) ** 5) ** (1 / 5)


def largest(trace, determinant):
    root = cmath.sqrt(trace * trace - 4 * determinant)
    return max(abs(trace + root), abs(trace - root)) / 2


RULES = {
    "joint": (lambda: strategies.joint, simultaneous),
    "detach": (lambda: strategies.detach, alternating),
    "extragradient": (strategies.Extragradient, extragradient),
    "past_extragradient": (strategies.PastExtragradient, optimistic),
    "consensus": (lambda: strategies.Consensus(gamma=0.5), consensus),
    "lookahead": (lambda: wrappers.Lookahead(strategies.joint, every=5, alpha=0.5), looked_ahead),
}


@pytest.mark.parametrize(
    ("name", "eigenvalue"), [*((name, EIGENVALUE) for name in RULES), *(("joint", one) for one in (1j, -0.2 + 0.9j, 0.8 + 0j))]
)
def test_rules_contract_as_their_closed_forms_say(name, eigenvalue):
    made, known = RULES[name]
    spirals = name in ("detach", "past_extragradient")  # distances swing about their trend
    assert contraction(made(), [eigenvalue], RATE) == pytest.approx(known(RATE * eigenvalue), rel=2e-2 if spirals else 1e-9)


def test_with_several_eigenvalues_the_worst_counts_in_the_long_run():
    found = contraction(strategies.joint, [1j, 0.4 + 1.2j, 2.0, 0.8], 0.3)
    assert found == pytest.approx(max(abs(1 - 0.3 * one) for one in (1j, 0.4 + 1.2j, 2.0, 0.8)), rel=1e-3)


def test_a_rule_that_leaves_float64_is_infinitely_far():
    assert contraction(strategies.joint, [1e6j], 1.0) == math.inf
