"""Intervals and verdicts: closed forms, how often intervals hold the truth, and that they hold nothing impossible."""

import math

import numpy as np
import pytest
from scipy.special import expit, logit

from experiments import finding
from experiments.finding import Interval, Verdict

C, R, U = Verdict.CONFIRMED, Verdict.REFUTED, Verdict.UNDECIDED
T2 = 4.302652729911275
"""Student's t for 2 degrees of freedom, 97.5 %."""


def test_intervals():
    assert finding.of_mean([1.0, 2.0, 3.0]).middle == 2
    half = T2 / math.sqrt(3)  # the standard deviation is 1
    assert finding.of_mean([1.0, 2.0, 3.0]).high == pytest.approx(2 + half)
    assert finding.of_mean([5.0]) == Interval(-math.inf, 5.0, math.inf)
    # With nine values, the second and the eighth enclose the median with probability 1 - 2 (1 + 9) / 2^9 = 0.961.
    assert finding.of_median([9.0, 1, 8, 2, 7, 3, 6, 4, 5]) == Interval(2, 5, 8)
    assert finding.of_median([3.0, 1.0, 2.0]) == Interval(1, 2, 3)


def test_intervals_of_bounded_quantities_by_their_formulas():
    made = finding.of_positive_mean([1.0, 2.0, 3.0])
    assert (made.low, made.high) == pytest.approx((2 * math.exp(-T2 / math.sqrt(12)), 2 * math.exp(T2 / math.sqrt(12))))
    made = finding.of_share_mean([0.7, 0.8, 0.9])
    reach = T2 * 0.1 / math.sqrt(3) / (0.8 * 0.2)
    assert (made.low, made.high) == pytest.approx((expit(logit(0.8) - reach), expit(logit(0.8) + reach)))


@pytest.mark.parametrize("values", [[0.99, 0.999, 0.4], [1e-9, 0.5, 0.9], [1.0, 1.0, 1.0], [0.0, 0.0], [0.3], [1.0, 0.9]])
def test_no_interval_holds_what_cannot_be(values):
    """The mean of a mass was given up to 1.03, a distance down to -35."""
    for of, most in ((finding.of_share_mean, 1), (finding.of_positive_mean, math.inf)):
        made = of(values)
        assert 0 <= made.low <= made.middle <= made.high <= most
        assert made.middle == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    ("of", "draw", "truth"),
    [
        (finding.of_share_mean, lambda random: random.beta(8, 2, 5), 0.8),
        (finding.of_positive_mean, lambda random: random.lognormal(0, 0.5, 5), math.exp(0.125)),
    ],
    ids=["share", "positive"],
)
def test_bounded_intervals_hold_the_truth_about_as_often_as_they_say(of, draw, truth):
    random = np.random.default_rng(0)
    held = [made.low <= truth <= made.high for made in (of(draw(random)) for _ in range(1000))]
    assert 0.9 < np.mean(held) < 0.99


@pytest.mark.parametrize(
    ("interval", "verdict"), [(Interval(1.1, 2, 3), C), (Interval(0.5, 0.7, 0.9), R), (Interval(0.9, 1.1, 1.2), U)]
)
def test_at_least(interval, verdict):
    assert finding.at_least(1.0, interval) is verdict


def test_a_claimed_factor_is_met_nearer_to_it_than_to_none():
    assert finding.about(8, Interval(3, 4, 5)) is C
    assert finding.about(8, Interval(1, 1.1, 2.7)) is R
    assert finding.about(8, Interval(2.5, 3, 3.5)) is U


def test_verdicts_are_joined():
    assert finding.together({("a", "x"): C, ("b", "y"): C}) == (C, "Confirmed in every case")
    mixed = finding.together({("a", "x"): C, ("a", "y"): C, ("b", "x"): C, ("b", "y"): R})
    assert mixed == (Verdict.DEPENDS, "Confirmed: a; b (x). Refuted: b (y)")
