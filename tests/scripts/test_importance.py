"""The functional ANOVA of the bench against functions whose decomposition is known in closed form."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import bench
from benching import importance
from benching.results import Results
from benching.workloads import WORKLOADS

LEVELS = 12
GRID = (np.arange(LEVELS) + 0.5) / LEVELS - 0.5  # symmetric around 0
SECOND = float(np.mean(GRID**2))


def test_the_decomposition_is_that_of_a_polynomial_by_hand():
    x, y, z = np.meshgrid(GRID, GRID, GRID, indexing="ij")
    surface = 3 + 2 * x + y**2 + 5 * x * y + 7 * x * y * z
    uniform = [np.full(LEVELS, 1 / LEVELS)] * 3
    parts = importance.decomposed(surface, uniform)
    assert parts[0,] == pytest.approx(4 * SECOND)
    assert parts[1,] == pytest.approx(np.mean(GRID**4) - SECOND**2)
    assert parts[2,] == pytest.approx(0, abs=1e-12)
    assert parts[0, 1] == pytest.approx(25 * SECOND**2)
    assert parts[0, 2] == pytest.approx(0, abs=1e-12)
    assert sum(parts.values()) + 49 * SECOND**3 == pytest.approx(surface.var())


def test_values_that_were_tried_more_often_weigh_more():
    surface = np.array([[0.0, 1.0], [2.0, 3.0]])  # 2 x + y, with x = 1 in a quarter and y = 1 in a half of cases
    parts = importance.decomposed(surface, [np.array([0.75, 0.25]), np.array([0.5, 0.5])])
    assert parts == pytest.approx({(0,): 4 * 0.75 * 0.25, (1,): 0.25, (0, 1): 0.0})


def test_the_forest_finds_main_effects_and_a_pair_in_noise():
    drawn = np.random.default_rng(0)
    x, y, z = drawn.choice(GRID, (3, 3000))
    signal = 2 * x + 6 * x * y
    response = signal + drawn.normal(0, 0.3, 3000)
    total = 4 * SECOND + 36 * SECOND**2 + 0.09
    shares = importance.explained([x, y, z], response)
    assert shares[0,] == pytest.approx(4 * SECOND / total, abs=0.05)
    assert shares[0, 1] == pytest.approx(36 * SECOND**2 / total, abs=0.05)
    assert all(shares[places] < 0.02 for places in ((1,), (2,), (0, 2), (1, 2)))


def test_rule_and_seed_explain_what_they_were_made_to():
    rules, seeds = np.arange(10.0)[:, None], np.arange(20.0)[None]
    assert importance._between(100 * rules + seeds)["rule"] == pytest.approx(
        np.var(np.arange(10) * 20) / np.var(np.arange(200))
    )
    assert importance._between(rules + 100 * seeds)["seed"] == pytest.approx(
        np.var(np.arange(20) * 10) / np.var(np.arange(200))
    )
    assert importance._between(np.random.default_rng(0).random((10, 20)))["rule"] < 0.12


def test_shuffling_keeps_the_runs_of_a_point_together():
    table = np.array([(a, b, c, rule, 10 * a + b) for (a, b, c), rule in itertools.product(((1, 2, 3), (4, 5, 6)), range(8))])
    drawn = np.random.default_rng(1)
    swapped = importance._shuffled(table, 0, drawn)
    while (swapped == table).all():
        swapped = importance._shuffled(table, 0, drawn)
    assert [*swapped[:, 0]] == [4] * 8 + [1] * 8
    assert (swapped[:, 1:] == table[:, 1:]).all()
    mixed = importance._shuffled(table, 3, drawn)
    assert sorted(mixed[:, 3]) == sorted(table[:, 3])
    assert not (mixed[:, 3] == table[:, 3]).all()


def test_the_interval_of_a_mean_without_a_fifth_of_the_points_is_the_usual_one():
    drawn = np.random.default_rng(0)
    values = drawn.normal(5, 1, 30)
    every = np.stack([np.zeros(60), np.repeat(np.arange(30), 2)], axis=1)  # two runs of each point
    samples = []
    for _ in range(4000):
        kept, ranks = importance._without_some(every, np.repeat(values, 2), drawn)
        assert len(kept) == 48
        samples.append(ranks.mean())
    found = importance._around(values.mean(), samples, 30)
    half = 1.96 * values.std(ddof=1) / np.sqrt(30)
    assert found.high - found.middle == pytest.approx(half, rel=0.05)
    assert importance._around(0.01, samples, 30).low == 0


def test_what_is_written_is_read(tmp_path):
    shares = [
        importance.Share("all", "ring.1", "adam", "rule", importance.Interval(0.1, 0.2, 0.3), 0.05, 660),
        importance.Share("test", "ring.1", "sgd", "rule × seed", importance.Interval(0.1, 0.2, 0.3), float("nan"), 440),
    ]
    importance.write(tmp_path / "i.csv", shares)
    importance.write(tmp_path / "i.csv", shares)
    one, other = importance.read(tmp_path / "i.csv")
    assert one == shares[0]
    assert np.isnan(other.by_chance)
    assert importance.read(tmp_path / "none.csv") == []


DOCS = Path(bench.DOCS)


def test_the_committed_shares_are_those_of_the_committed_runs():
    shares = importance.read(DOCS / "study_choices.csv")
    results = Results(DOCS / "study.csv")
    workload = WORKLOADS["digits_nonsaturating"]
    there = {(one.scope, one.choice): one for one in shares if one.block == (workload.name, "adam")}
    for one in importance.of_test(results, workload, "adam"):
        assert there["test", one.choice].share.middle == pytest.approx(one.share.middle, abs=1e-4)
    every, ranks = importance.tried(results, workload, "adam", "all")
    for name, share in importance.explained_by_name(every, ranks, 0).items():
        assert there["all", name].share.middle == pytest.approx(share, abs=0.02)  # another version's forest may differ a little
    assert len({one.block for one in shares}) == 11


def test_other_pages_say_of_the_choices_what_their_file_says():
    shares = [one for one in importance.read(DOCS / "study_choices.csv") if one.scope == "all"]
    of = {name: [100 * one.share.middle for one in shares if one.choice == name] for name in importance.CHOICES}
    low, high, most, least, rule = (
        round(one) for one in (min(of["D's rate"]), max(of["D's rate"]), max(of["momentum"]), min(of["rule"]), max(of["rule"]))
    )
    for page in ("strategies.md", "../README.md"):
        said = " ".join((DOCS / page).read_text().split())
        assert re.search(
            rf"explains {low} to {high} % of the spread.{{0,30}}the momentum up to {most} %, and the rule {least} to {rule} %",
            said,
        ), page
    tenths = [of for (_, division), of in importance.best_tenths(Results(DOCS / "study.csv")).items() if division == "adam"]
    assert all(of[0.9] == max(of.values()) for of in tenths)  # 0 or 0.5, not 0.9
