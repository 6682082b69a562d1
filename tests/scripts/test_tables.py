"""Generated tables say what parts declare, and a stale one is named. `.ci/run` checks those of the pages."""

import csv

import pytest
from scipy.stats import trim_mean

import tables
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


def test_the_bench_is_told_as_its_runs_ended():
    ends = {}
    with (tables.ROOT / "docs" / "study.csv").open() as file:
        for row in csv.DictReader(file):
            if (row["part"], row["workload"], row["division"]) == ("test", "ring_nonsaturating.1", "adam"):
                ends.setdefault(row["rule"], []).append(float(row["figures"].split()[-1]))
    _, *rows = tables.bench()
    told = {rule.strip("`"): cell.strip("*").partition(",")[0] for rule, cell, *_ in rows}
    for rule in ("consensus", "joint", "resample", "lookahead"):
        assert len(ends[rule]) == 20
        assert told[rule] == f"{trim_mean(ends[rule], 0.25) / trim_mean(ends['detach'], 0.25):.2f}"
