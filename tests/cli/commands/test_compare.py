"""The comparison: which rows it has, what it measures, and what it writes."""

import csv

import pytest
from PIL import Image

from ganexp.cli.commands.compare.run import compare
from tests.calling import call

TINY = ["dataset=fake", "dataset.image_size=16", "generator.width=2", "discriminator.width=2", "batch_size=4", "latent_dim=3"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    settings = ["--repeats", "2", "--iterations", "1", "--strategies", "competitive", "one_stage", "--overrides", *TINY]
    call("compare", *settings, "--losses", "nonsaturating", "hinge", "--output", str(folder))
    with (folder / "table.csv").open() as file:
        return folder, list(csv.DictReader(file))


def test_every_row_is_there_for_every_loss(results):
    _, rows = results
    ours = ["detach, redundant", "detach", "one_stage"]  # competitive fits neither loss, and one_stage wastes nothing
    assert [row["strategy"] for row in rows if row["loss"] == "nonsaturating"] == [*ours, "plain loop, redundant", "plain loop"]
    assert [row["strategy"] for row in rows if row["loss"] == "hinge"] == ours


def test_the_plain_loops_do_the_very_same_work(results):
    rows = {row["strategy"]: row for row in results[1] if row["loss"] == "nonsaturating"}
    assert rows["plain loop"]["gflop"] == rows["detach"]["gflop"]
    assert rows["plain loop, redundant"]["gflop"] == rows["detach, redundant"]["gflop"]
    work = [float(rows[name]["gflop"]) for name in ("one_stage", "detach", "detach, redundant")]
    assert work == sorted(work)


@pytest.mark.parametrize(
    "further", [["dataset=digits", "conditional=true"], ["pack=2"], ["penalty=[r1]"], ["augment=diffaugment"], ["d_steps=2"]]
)
def test_there_is_no_plain_loop_of_what_these_loops_do_not_do(further):
    rows = compare(["detach"], "nonsaturating", [*TINY, *further], 2, 1)

    assert [row["strategy"] for row in rows] == ["detach, redundant", "detach"]


def test_ratios_are_relative_to_redundant_detach(results):
    _, rows = results
    for row in rows:
        low, middle, high = (float(row[key]) for key in ("ratio_low", "ratio", "ratio_high"))
        assert 0 < low <= middle <= high
        if row["strategy"] == "detach, redundant":
            assert (low, middle, high) == (1, 1, 1)


def test_phases_are_those_of_the_framework(results):
    for row in results[1]:
        phases = [row[f"{phase}_ms"] for phase in ("data", "d", "g")]
        if "plain" in row["strategy"]:
            assert phases == ["", "", ""]
        else:
            assert 0 < sum(map(float, phases)) < float(row["iteration_ms"]) * 2


def test_table_and_plot_are_written(results):
    folder, rows = results
    text = (folder / "table.md").read_text()
    assert "medians [95% confidence intervals] of 2 interleaved repeats of 1 iterations" in text
    assert text.count("\n| nonsaturating |") + text.count("\n| hinge |") == len(rows)
    with Image.open(folder / "time.png") as plot:
        assert min(plot.size) > 200


@pytest.mark.parametrize("arguments", [["--losses", "hingee"], ["--overrides", "generator.widht=64"], ["--repeats", "0"]])
def test_a_mistake_is_one_sentence(arguments, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        call("compare", *arguments, "--output", str(tmp_path / "results"))
    assert str(end.value).startswith("Error: ") or "should be" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_earlier_results_are_not_replaced(results):
    folder, _ = results
    before = (folder / "table.md").read_text()
    with pytest.raises(SystemExit, match="holds a comparison already: choose another folder"):
        call("compare", "--overrides", *TINY, "--output", str(folder))
    assert (folder / "table.md").read_text() == before
