from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import momentum
from benching import paired, paired_analysis
from benching.results import Results
from benching.rules import RULES
from benching.space import DIVISIONS
from benching.workloads import WORKLOADS


def test_every_momentum_meets_every_rule_at_the_rates_of_the_bench() -> None:
    rules = {rule.name: rule for rule in paired.rules()}
    for workload in paired.workloads():
        points = paired.FEWER_POINTS.get(workload.name, range(10))
        runs = [*paired.runs(workload)]
        assert len(runs) == len({run.identity for run in runs}) == 10 * len(paired.BLOCKS[workload.name]) * 3 * 3 * len(points)
    for run in paired.runs(WORKLOADS["ring_hinge"]):
        rule, momentum_of = run.rule.split()
        bench = RULES[rule].at(run.point, run.division)
        point = rules[run.rule].at(run.point, run.division)
        assert point.settings[:2] == bench.settings[:2]
        assert point.settings[2:] == (DIVISIONS[run.division].as_typed.format(momentum_of),)


def test_a_trial_goes_on_where_its_bound_ended_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = [run for run in paired.runs(WORKLOADS["ring_nonsaturating"]) if run.point == 9 and run.seed == 0][:2]
    monkeypatch.setattr(paired, "runs", lambda workload: iter(small if workload.name == "ring_nonsaturating" else []))
    monkeypatch.setattr(paired_analysis, "compared", lambda results: [])  # which wants all points
    file = tmp_path / "momentum.csv"
    first = momentum.main(["--hours", "1e-9", "--results", str(file)])
    assert [run in first for run in small] == [True, False]
    both = momentum.main(["--results", str(file)])
    assert all(run in both for run in small)
    ends = [line.end for line in both.of_part("test")]
    assert ends[0] != ends[1]  # the momentum has reached the optimiser
    written = file.read_bytes()
    momentum.main(["--results", str(file)])
    assert file.read_bytes() == written


def written(path: Path, end: Callable[[str, str, int, int], float], seeds: int = 10) -> Results:
    """A file of all runs on a workload with Adam, each at one distance throughout, given its rule, momentum, point and seed."""
    results = Results(path)
    lines = [run for run in paired.runs(WORKLOADS["ring_hinge"]) if run.division == "adam" and run.seed < seeds]
    made = []
    for run in lines:
        figure = end(*run.rule.split(), run.point, run.seed)
        made.append(replace(run, state="finished", figures=(figure,) * 10))
    results.append(*made)
    return results


def test_a_seed_is_run_at_the_rates_that_are_best_for_the_others(tmp_path: Path) -> None:
    def end(rule: str, momentum: str, point: int, seed: int) -> float:
        return 0.1 if point == seed else 1.0 if point == 3 else 2.0  # each seed is lucky at a rate of its own

    block = paired_analysis.runs_of(written(tmp_path / "m.csv", end), "ring_hinge", "adam")
    found = paired_analysis.without_itself([block["detach", "0.0"]])
    assert [*found] == [1.0] * 3 + [0.1] + [1.0] * 6


def test_order_forgiveness_and_loss_are_found_where_they_were_put(tmp_path: Path) -> None:
    factor = {("detach", "0.9"): 2.0, ("joint", "0.9"): 6.0, ("extragradient", "0.9"): 2.0, ("detach", "0.5"): 0.8}

    def end(rule: str, momentum: str, point: int, seed: int) -> float:
        return (1 + point) * (1 + seed / 20) * factor.get((rule, momentum), 1.0)

    found = paired_analysis.compared(written(tmp_path / "m.csv", end))
    of = {(one.question, one.rule, one.what.split()[0]): one for one in found}
    assert of["order", "detach", "0.9"].ratio.middle == pytest.approx(2, rel=1e-3)
    assert of["order", "joint", "0.9"].ratio.middle == pytest.approx(6, rel=1e-3)
    assert of["order", "detach", "0.5"].verdict == "below"
    assert of["order", "joint", "0.5"].verdict == "open"
    assert of["order", "detach", "0.9"].p == pytest.approx(6 * 2 / 2**10)  # the least of Wilcoxon's, times six
    assert of["forgives", "joint", "(0.9"].ratio.middle == pytest.approx(3, rel=1e-3)
    assert of["forgives", "joint", "(0.9"].verdict == "above"
    assert of["forgives", "extragradient", "(0.9"].ratio.middle == pytest.approx(1, rel=1e-3)
    assert of["lost", "detach", "0.0"].ratio.middle == pytest.approx(1 / 0.8, rel=1e-3)
    assert of["lost", "joint", "0.0"].ratio.middle == 1
    joint = paired_analysis.rows(found, "adam")[1]
    assert [*joint] == ["workload", "rule", "0.5 / 0.0", "0.9 / 0.0", "(0.9 / 0.0) / the same of detach", "0.0 / best"]
    assert [value.endswith("*") for value in joint.values()] == [False, False, False, True, True, False]
    assert paired_analysis.rows(found, "sgd") == []
    near = paired_analysis.near(Results(tmp_path / "m.csv"), "ring_hinge", "adam", 2.0)
    assert near[0] == {"rule": "`detach`", "0.0": "10", "0.5": "15", "0.9": "0"}  # 0.5 at point 1: 1.6 (1 + seed / 20)
    assert paired_analysis.rows(found, "adam")[3] == dict.fromkeys(joint, "") | {
        "workload": "all",
        "rule": "`detach`",
        "0.0 / best": "1.25 (1.25 to 1.25)",
    }


def test_pairs_and_distances_without_averages_are_described(tmp_path: Path) -> None:
    def end(rule: str, momentum: str, point: int, seed: int) -> float:
        return {"0.0": 1.0, "0.5": 0.5 if point < 3 else 2.0, "0.9": float("inf")}[momentum] if point else float("inf")

    results = written(tmp_path / "m.csv", end)
    assert paired_analysis.described(results, "adam") == []  # nothing is known of the networks without averages
    results.append(
        *[replace(run, part="plain", figures=(3.0 if "0.5" in run.rule else 1.0,)) for run in results.of_part("test")]
    )
    row = paired_analysis.described(results, "adam")[0]
    assert row == {
        "workload": "`ring_hinge`",
        "rule": "`detach`",
        "0.5 / 0.0": "3 [3, 3]",
        "0.9 / 0.0": "1 [1, 1]",
        "0.0 better than 0.5": "78 %",  # 7 of 9 points: both diverge at the first
        "0.0 better than 0.9": "100 %",
    }


def test_few_seeds_have_intervals_and_no_tests(tmp_path: Path) -> None:
    def end(rule: str, momentum: str, point: int, seed: int) -> float:
        return 2.0 if momentum == "0.9" else 1.0

    found = paired_analysis.compared(written(tmp_path / "m.csv", end, seeds=7))
    assert {one.seeds for one in found} == {7}
    assert {one.verdict for one in found} == {"open"}
    assert "| `ring_hinge`, 7 seeds | `detach` | 1 [1, 1] | 2 [2, 2] |  | 1 [1, 1] |" in paired_analysis.summary(found)
    assert paired_analysis.compared(written(tmp_path / "one.csv", end, seeds=1)) == []


def test_a_rule_whose_runs_diverge_loses_infinitely_more(tmp_path: Path) -> None:
    def end(rule: str, momentum: str, point: int, seed: int) -> float:
        return float("inf") if (rule, momentum) == ("joint", "0.9") and seed % 2 else 1.0

    found = paired_analysis.compared(written(tmp_path / "m.csv", end))
    joint = next(one for one in found if (one.question, one.rule) == ("forgives", "joint"))
    assert (joint.ratio.low, joint.ratio.middle, joint.ratio.high) == (1, float("inf"), float("inf"))
