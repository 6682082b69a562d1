"""Rankings of combinations: means, intervals and tests against SciPy and hand computation, and what they promise."""

import itertools

import numpy as np
import pytest
from scipy import stats

from ganexp.compare.ranking import Outcome, Place, holm, notes, p_of_difference, ranked

PAIRED = {"0": 3.1, "1": 4.7, "2": 5.2, "3": 2.9}
MORE = {"1": 5.9, "0": 3.6, "3": 3.8, "2": 5.5, "4": 4.4}
OTHERS = {"0": 3.0, "7": 9.5, "8": 6.5}


def outcomes(combination, values, basis=""):
    return [Outcome(f"{combination}{seed}", combination, seed, value, basis=basis) for seed, value in values.items()]


def standings(ranking):
    return {place.combination: place.standing for place in ranking.places}


def test_with_all_seeds_of_the_other_differences_are_paired_by_seed():
    expected = stats.ttest_rel([PAIRED[seed] for seed in "0123"], [MORE[seed] for seed in "0123"]).pvalue
    assert p_of_difference(PAIRED, MORE) == pytest.approx(expected, rel=1e-12)
    assert p_of_difference(MORE, PAIRED) == pytest.approx(expected, rel=1e-12)


def test_else_the_test_is_welchs():
    expected = stats.ttest_ind([*PAIRED.values()], [*OTHERS.values()], equal_var=False).pvalue
    assert p_of_difference(PAIRED, OTHERS) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("other", "p"),
    [({"0": 1.0, "1": 1.0}, 1.0), ({"0": 2.0, "1": 2.0}, 0.0), ({"5": 2.0, "6": 2.0}, 0.0), ({"5": 1.0, "6": 1.0}, 1.0)],
)
def test_values_without_spread_differ_certainly_or_not_at_all(other, p):
    assert p_of_difference({"0": 1.0, "1": 1.0}, other) == p


def test_enormous_values_are_no_nan():
    assert p_of_difference({"0": 1e200, "1": -1e300}, {"2": 3e300, "3": 1.0}) == 1.0
    (ranking,) = ranked(outcomes("a", {"0": 1e308, "1": 1.7e308}) + outcomes("b", {"0": 1.0, "1": 2.0}))
    assert [place.combination for place in ranking.places] == ["b", "a"]


def test_holms_correction_by_hand():
    """Holm (1979): the smallest of four times 4, the next times 3, and so on, never below one before it, at most 1."""
    assert holm([0.02, 0.01, 0.3, 0.04]) == pytest.approx([0.06, 0.04, 0.3, 0.08])
    assert holm([0.01, 0.011, 0.9, 0.8]) == pytest.approx([0.04, 0.04, 1.0, 1.0])
    assert holm([]) == []


def test_a_small_table_by_hand():
    values = {
        "good": {"0": 1.0, "1": 1.2, "2": 1.1, "3": 1.3},
        "near": {"0": 1.1, "1": 1.1, "2": 1.4, "3": 1.2},
        "bad": {"0": 3.0, "1": 3.3, "2": 3.2, "3": 3.2},
    }
    (ranking,) = ranked([one for name, own in values.items() for one in outcomes(name, own)])
    rows = {name: list(own.values()) for name, own in values.items()}
    near = stats.ttest_rel(rows["good"], rows["near"]).pvalue
    bad = stats.ttest_rel(rows["good"], rows["bad"]).pvalue
    between = stats.ttest_rel(rows["near"], rows["bad"]).pvalue
    assert bad < between < near
    good, second, third = ranking.places
    assert [good.combination, second.combination, third.combination] == ["good", "near", "bad"]
    assert (good.p, good.standing) == (None, "best")
    assert (second.p, second.standing) == (pytest.approx(near), "not distinguishable")
    assert (third.p, third.standing) == (pytest.approx(3 * bad), "worse")
    low, high = np.quantile([np.mean(one) for one in itertools.product(rows["good"], repeat=4)], [0.025, 0.975])
    assert (good.interval.low, good.interval.high) == pytest.approx((low, high), abs=0.026)
    assert good.figure == f"1.15 [{good.interval.low:.2f}, {good.interval.high:.2f}]"


def test_the_highest_can_be_best():
    (ranking,) = ranked(outcomes("a", PAIRED) + outcomes("b", {seed: 10 * x for seed, x in PAIRED.items()}), "highest")
    assert [place.combination for place in ranking.places] == ["b", "a"]


def test_one_seed_has_neither_interval_nor_test():
    (ranking,) = ranked(outcomes("a", PAIRED) + outcomes("b", {"0": 900.0}))
    lone = ranking.places[1]
    assert (lone.p, lone.interval, lone.standing, lone.verdict, lone.figure) == (None, None, "untested", "one seed", "900")
    (ranking,) = ranked(outcomes("a", PAIRED) + outcomes("b", {"0": -900.0}) + outcomes("c", {"0": 5.0}))
    assert standings(ranking) == {"b": "best", "a": "untested", "c": "untested"}
    assert [place.verdict for place in ranking.places] == ["best", "best has one seed", "one seed"]


def test_neither_one_alone_nor_any_of_several_equal_ones_is_the_best():
    (ranking,) = ranked(outcomes("a", PAIRED))
    assert standings(ranking) == {"a": "only one"}
    (ranking,) = ranked(outcomes("a", PAIRED) + outcomes("b", PAIRED) + outcomes("c", {"0": 900.0}))
    assert standings(ranking) == {"a": "tied", "b": "tied", "c": "untested"}
    assert notes([ranking])[0].startswith("* equal means")


def test_what_is_said_of_intervals_fits_the_number_of_seeds():
    for n, covered in ((2, 50), (3, 75), (5, 85), (7, 86), (12, 90), (15, 92)):
        (ranking,) = ranked(outcomes("a", {str(seed): float(seed) for seed in range(n)}))
        (said,) = notes([ranking])
        assert f"{n} normal values" in said
        assert f"at least {covered} %" in said
    (ranking,) = ranked(outcomes("a", {str(seed): float(seed) for seed in range(16)}))
    assert notes([ranking]) == ["[low, high]: 95 % interval of the mean over seeds, by bootstrap."]
    (ranking,) = ranked(outcomes("a", {"0": 1.0}))
    assert notes([ranking]) == []


def test_runs_without_a_figure_are_counted_and_kept():
    lost = [Outcome("9", "a", "9", reason="failed"), Outcome("8", "c", "0", reason="missing")]
    (ranking,) = ranked(outcomes("a", PAIRED) + outcomes("b", MORE) + lost)
    assert {place.combination: (place.seeds, place.standing) for place in ranking.places} == {
        "a": ("4 of 5", "best"),
        "b": ("5", "worse"),
        "c": ("0 of 1", "no figure"),
    }
    assert [run.run for place in ranking.places for run in place.lost] == ["9", "8"]
    (nothing,) = ranked(lost)
    assert standings(nothing) == {"a": "no figure", "c": "no figure"}


def test_a_seed_that_was_run_twice_counts_once():
    place = Place("a", outcomes("a", {"0": 1.0, "1": 4.0}) + outcomes("a", {"0": 3.0}))
    assert place.values == {"0": 2.0, "1": 4.0}
    assert place.seeds == "2"


def test_a_seed_whose_lost_run_was_repeated_has_a_figure():
    (ranking,) = ranked([Outcome("0", "a", "0", reason="failed"), *outcomes("a", {"0": 1.0, "1": 2.0})])
    assert ranking.places[0].seeds == "2"
    assert notes([ranking])[-1] == "No figure: 0 failed."
    assert not any(note.startswith("Where seeds have no figure") for note in notes([ranking]))


def test_figures_of_different_bases_are_never_ranked_together():
    mixed = outcomes("a", PAIRED, "x") + outcomes("b", {"0": 0.1, "1": 0.2}, "y") + outcomes("a", {"8": 0.3, "9": 0.4}, "y")
    one, other = ranked([*mixed, *outcomes("c", {"0": 50.0, "1": 51.0}, "x")])
    assert (one.basis, [*standings(one)]) == ("x", ["a", "c"])
    assert (other.basis, [*standings(other)]) == ("y", ["b", "a"])
    assert one.places[0].values == PAIRED
    alone = stats.ttest_ind([*PAIRED.values()], [50.0, 51.0], equal_var=False).pvalue
    paired = stats.ttest_rel([PAIRED["0"], PAIRED["1"]], [50.0, 51.0]).pvalue
    assert one.places[1].p == pytest.approx(paired)
    assert one.places[1].p != pytest.approx(alone)


@pytest.mark.slow
def test_of_equal_combinations_hardly_ever_is_one_called_worse():
    """The best is chosen by its figures. Corrected for the comparisons with it alone, the luckiest of six would err in 9 %."""
    random, repetitions, wrong = np.random.default_rng(0), 400, 0
    for _ in range(repetitions):
        table = random.normal(size=(6, 5))
        (ranking,) = ranked(
            [one for i, row in enumerate(table) for one in outcomes(str(i), {str(j): x for j, x in enumerate(row)})]
        )
        wrong += "worse" in standings(ranking).values()
    assert wrong / repetitions < 0.05 + 2 * (0.05 * 0.95 / repetitions) ** 0.5


@pytest.mark.parametrize(
    ("mean", "values", "figure"),
    [
        (12.347, (-0.041, 0.041), "12.347 [12.306, 12.388]"),
        (123456.0, (-20.0, 20.0), "123456 [123436, 123476]"),
        (1.5e-9, (-1e-10, 1e-10), "1.5e-09 [1.4e-09, 1.6e-09]"),
        (2.0, (0.0, 0.0), "2 [2, 2]"),
    ],
)
def test_figures_have_as_many_digits_as_their_intervals_allow(mean, values, figure):
    assert Place("a", outcomes("a", {str(i): mean + x for i, x in enumerate(values)})).figure == figure
