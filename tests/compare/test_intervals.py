"""Intervals: closed forms, how often they hold the truth, and that they hold nothing impossible."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit, logit

from ganexp.compare.intervals import Interval, of_median, of_ratio, of_resampled_mean
from ganexp.compare.ranking import COVERED
from measuring.intervals import of_mean, of_positive_mean, of_share_mean

T2 = 4.302652729911275
"""Student's t for 2 degrees of freedom, 97.5 %."""


def test_intervals():
    assert of_mean([1.0, 2.0, 3.0]).middle == 2
    half = T2 / math.sqrt(3)  # the standard deviation is 1
    assert of_mean([1.0, 2.0, 3.0]).high == pytest.approx(2 + half)
    assert of_mean([5.0]) == Interval(-math.inf, 5.0, math.inf)
    # With nine values, the second and the eighth enclose the median with probability 1 - 2 (1 + 9) / 2^9 = 0.961.
    assert of_median([9.0, 1, 8, 2, 7, 3, 6, 4, 5]) == Interval(2, 5, 8)
    assert of_median([3.0, 1.0, 2.0]) == Interval(1, 2, 3)


def test_a_bootstrap_is_that_of_all_resamples_and_stays_within_the_possible():
    values = [8.0, 8.0, 2.0, 7.0, 5.0]
    means = [np.mean(one) for one in itertools.product(values, repeat=5)]
    made = of_resampled_mean(values)
    assert made.middle == 6
    assert (made.low, made.high) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.11)
    assert of_resampled_mean([8.0, 8.0, 1.0, 8.0]).high <= 8  # of 8 modes: Student's ends at 11.8
    assert of_resampled_mean([0.1, 0.1, 0.1]) == Interval(*[pytest.approx(0.1)] * 3)
    assert of_resampled_mean([5.0]) == Interval(-math.inf, 5.0, math.inf)


@pytest.mark.slow
def test_of_few_values_a_bootstrap_holds_the_truth_as_often_as_it_says():
    for n, share in COVERED.items():
        random = np.random.default_rng(0)
        held = [made.low <= 0 <= made.high for made in (of_resampled_mean(random.normal(size=n)) for _ in range(300))]
        assert np.mean(held) == pytest.approx(share / 100, abs=0.06)


def test_the_interval_of_two_or_three_values_misses_where_all_lie_on_one_side_of_the_truth():
    for n in (2, 3):
        assert (of_resampled_mean(range(n)).low, of_resampled_mean(range(n)).high) == (0, n - 1)
        assert COVERED[n] == 100 * (1 - 2 / 2**n)


def test_drift_between_turns_cancels_in_ratios():
    drift = np.linspace(1, 5, 9)
    assert of_ratio(list(3.0 * drift), list(2.0 * drift)) == Interval(1.5, 1.5, 1.5)


def test_intervals_of_bounded_quantities_by_their_formulas():
    made = of_positive_mean([1.0, 2.0, 3.0])
    assert (made.low, made.high) == pytest.approx((2 * math.exp(-T2 / math.sqrt(12)), 2 * math.exp(T2 / math.sqrt(12))))
    made = of_share_mean([0.7, 0.8, 0.9])
    reach = T2 * 0.1 / math.sqrt(3) / (0.8 * 0.2)
    assert (made.low, made.high) == pytest.approx((expit(logit(0.8) - reach), expit(logit(0.8) + reach)))


@pytest.mark.parametrize("values", [[0.99, 0.999, 0.4], [1e-9, 0.5, 0.9], [1.0, 1.0, 1.0], [0.0, 0.0], [0.3], [1.0, 0.9]])
def test_no_interval_holds_what_cannot_be(values):
    """The mean of a mass was given up to 1.03, a distance down to -35."""
    for of, most in ((of_share_mean, 1), (of_positive_mean, math.inf)):
        made = of(values)
        assert 0 <= made.low <= made.middle <= made.high <= most
        assert made.middle == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    ("of", "draw", "truth"),
    [
        (of_share_mean, lambda random: random.beta(8, 2, 5), 0.8),
        (of_positive_mean, lambda random: random.lognormal(0, 0.5, 5), math.exp(0.125)),
    ],
    ids=["share", "positive"],
)
def test_bounded_intervals_hold_the_truth_about_as_often_as_they_say(of, draw, truth):
    random = np.random.default_rng(0)
    held = [made.low <= truth <= made.high for made in (of(draw(random)) for _ in range(1000))]
    assert 0.9 < np.mean(held) < 0.99
