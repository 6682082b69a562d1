"""Generated tables say what parts declare, and a stale one is named. `.ci/run` checks those of the pages."""

import csv
from collections import defaultdict
from math import inf
from statistics import mean

import pytest
from scipy.stats import gmean, trim_mean

import tables
from benching import statistics
from tests.composing import options

PAGE = "Before.\n<!-- table: loss -->\n| old |\n<!-- end -->\nBetween.\n<!-- table: measured -->\n<!-- end -->\nAfter.\n"


def test_tables_are_written_between_their_marks_and_stay(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(SystemExit, match="True"):
        tables.main(["--check", str(page)])
    stale = [line.partition(" is stale")[0] for line in capsys.readouterr().out.splitlines()]
    assert stale == ["page.md: the table loss", "page.md: the table measured"]
    assert page.read_text() == PAGE
    for arguments in ([], ["--check"]):
        with pytest.raises(SystemExit, match="False"):
            tables.main([*arguments, str(page)])
    lines = page.read_text().splitlines()
    assert [line for line in lines if not line.startswith("| ")] == [
        line for line in PAGE.splitlines() if not line.startswith("| ")
    ]
    losses = lines[lines.index("<!-- table: loss -->") + 3 : lines.index("<!-- end -->")]
    assert [line.split("`")[1] for line in losses] == options("loss")
    assert "| `loss=began` | `began/k_t` | BEGAN's control variable |" in lines


def test_a_table_that_nobody_knows_is_refused():
    with pytest.raises(SystemExit, match="weather"):
        tables.table("weather")


def test_the_bench_is_told_as_its_runs_ended(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 50)  # intervals are rough then, and not looked at
    monkeypatch.setattr(tables, "_benched", tables._benched.__wrapped__)
    tuned, ends = defaultdict(dict), defaultdict(list)
    with (tables.ROOT / "docs" / "study.csv").open() as file:
        for row in csv.DictReader(file):
            arm, figures = (row["workload"], row["rule"]), [float(one) for one in row["figures"].split()]
            if row["division"] != "adam" or row["state"] == "misfit":
                continue
            finished = row["state"] == "finished"
            if row["part"] == "tuning":
                tuned[arm][int(row["point"])] = mean(figures[-3:]) if finished else inf
            elif row["part"] == "test":
                ends[*arm, int(row["point"])].append(figures[-1] if finished else inf)

    def figure(block, rule):
        arm = (block.workload.key, rule)
        counting = {number: plateau for number, plateau in tuned[arm].items() if block.extended or number < 20}
        return trim_mean(ends[*arm, min(counting, key=counting.get)], 0.25)

    header, *rows = tables.bench()
    told = {rule.strip("`"): ratio for rule, ratio, *_ in rows}
    blocks = [block for block in tables._benched() if block.division == "adam"]
    assert f"on {len(blocks)} workloads" in header[1]
    for rule in ("anchoring", "topk", "past_extragradient"):
        assert told[rule].partition(" ")[0] == f"{gmean([figure(one, rule) / figure(one, 'detach') for one in blocks]):.2f}"
