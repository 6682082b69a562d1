"""The statistics of the bench, against closed forms, SciPy and simulation."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from benching import statistics


def test_the_interquartile_mean_is_scipys_where_quarters_are_whole_and_bears_a_quarter_of_divergences():
    values = np.random.default_rng(0).lognormal(size=20)
    assert statistics.interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25))
    assert statistics.interquartile_mean([1.0, 2.0, 3.0]) == pytest.approx((0.25 * 1 + 2 + 0.25 * 3) / 1.5)
    lost = [*np.sort(values)[:15], *[math.inf] * 5]
    assert statistics.interquartile_mean(lost) == pytest.approx(np.sort(values)[5:15].mean())
    assert statistics.interquartile_mean([*values[:14], *[math.inf] * 6]) == math.inf


def test_ratios_and_the_probability_of_improvement_are_those_by_hand():
    assert statistics.ratio([([2.0], [1.0]), ([1.0], [8.0])]) == pytest.approx(0.5)
    assert statistics.improvement([([1.0, 2.0], [2.0, 3.0])]) == pytest.approx((1 + 1 + 0.5 + 1) / 4)
    one, other = np.random.default_rng(1).normal(size=(2, 20))
    u = stats.mannwhitneyu(one, other).statistic
    assert statistics.improvement([(one, other)]) == pytest.approx(1 - u / 400)


def test_the_bootstrap_is_scipys_for_one_stratum_and_resamples_strata_by_themselves():
    values, ones = np.random.default_rng(2).normal(5, 1, 40), np.ones(40)

    def mean(pairs):
        return np.mean([np.mean(one, axis=-1) for one, _ in pairs], axis=0)

    found = statistics.interval(mean, [(values, ones)])
    expected = stats.bootstrap((values,), np.mean, method="percentile", rng=0).confidence_interval
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.03)
    apart = statistics.interval(mean, [(np.zeros(20), ones[:20]), (np.full(20, 10.0), ones[:20])])
    assert (apart.low, apart.middle, apart.high) == (5, 5, 5)  # a stratum without spread adds none, however far apart they are


def test_wilcoxons_p_is_exact_and_two_divergences_are_equal():
    better = ([0.5 - 0.01 * i for i in range(10)], [1.0] * 10)
    assert statistics.p_of(better) == pytest.approx(2 / 2**10)
    assert statistics.p_of(([math.inf] * 3, [math.inf] * 3)) == 1
    assert statistics.p_of(([math.inf] * 10, [1.0 + 0.01 * i for i in range(10)])) < 0.01


def test_the_spread_leaves_out_seeds_with_which_a_run_diverged():
    pair = ([1.0, 2.0, math.inf, math.inf, 1.0], [1.0, 1.0, math.inf, 1.0, math.inf])
    assert statistics.spread(pair) == pytest.approx(np.log(2) / 2 / 1.349, rel=1e-3)


def test_the_spread_of_normal_differences_is_their_standard_deviation_in_spite_of_outliers():
    logs = np.random.default_rng(4).normal(0, 0.3, 4000)
    logs[:40] = 9
    assert statistics.spread((np.exp(logs), np.ones(4000))) == pytest.approx(0.3, rel=0.05)


def test_profiles_are_shares_of_runs():
    np.testing.assert_allclose(statistics.profile([1.0, 2.0, 2.0, math.inf], [0.5, 1, 2, 9]), [0, 0.25, 0.75, 0.75])


@pytest.mark.slow
def test_the_power_is_that_of_simulated_tests():
    drawn = np.random.default_rng(3)
    for effect, alpha in [(0.7, 0.05), (1.0, 0.01)]:
        samples = drawn.normal(effect, 1, (1500, 20))
        found = np.mean(stats.wilcoxon(samples, axis=1).pvalue < alpha)
        assert statistics.power(effect, 20, alpha) == pytest.approx(found, abs=0.04)


def test_the_detectable_effect_has_the_power_that_was_asked_for_and_grows_with_the_comparisons():
    effect = statistics.detectable(20, 40)
    assert statistics.power(effect, 20, 0.05 / 40) == pytest.approx(0.8)
    assert statistics.detectable(20, 1) < effect < statistics.detectable(5, 40)
    assert statistics.power(0, 20, 0.05) == pytest.approx(0.05)


def test_the_best_of_a_smaller_budget_is_its_mean_over_all_choices():
    values = [3.0, 1.0, 2.0, 7.0, math.inf]
    finite = values[:4]
    assert statistics.best_of(finite, 2) == pytest.approx(np.mean([min(pair) for pair in itertools.combinations(finite, 2)]))
    assert statistics.best_of(values, 5) == 1
    assert statistics.best_of(values, 1) == math.inf
