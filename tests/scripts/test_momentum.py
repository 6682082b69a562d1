from pathlib import Path

import pytest

import momentum
from benching import paired
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
