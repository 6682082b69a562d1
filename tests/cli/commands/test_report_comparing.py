"""The report: which runs are averaged with which, under which names, and what the page makes of many unlike ones."""

import json
import re
from pathlib import Path

import numpy as np

from ganexp.cli.commands.report import charts
from ganexp.cli.pages import comparing
from ganexp.cli.pages.headings import heading, listed, section
from ganexp.config.plain import plain
from ganexp.logging import reading as runs
from ganexp.logging.reading import RecordedRun
from tests.calling import call
from tests.cli.commands.run_folders import config, figures, over_iterations, plain_run
from tests.composing import composed


def groups_of(tmp_path):
    return comparing.grouped([runs.read(folder) for folder in runs.find(tmp_path)])


def test_a_resumed_run_is_averaged_with_its_siblings(tmp_path):
    plain_run(tmp_path / "0_a", config(0, resume="outputs/a/checkpoints/last.pt", iterations=40, log_every=5, data_root="/x"))
    plain_run(tmp_path / "1_b", config(1, logger={"wandb": {"name": "b", "tags": ["x"]}}), values=(3.0, 4.0, 5.0))
    (group,) = groups_of(tmp_path)
    assert (group.name, group.size) == ("all runs", "2 seeds")
    page = call("report", tmp_path).read_text()
    _, line = figures(page)["loss/d"]["data"]
    assert line["y"] == [2.0, 3.0, 4.0]
    assert "<button" not in page.partition("<script>")[0]


def test_one_seed_twice_is_not_called_two_seeds(tmp_path):
    plain_run(tmp_path / "0_a", config(0))
    plain_run(tmp_path / "1_b", config(0, iterations=40))
    assert [group.size for group in groups_of(tmp_path)] == ["2 runs"]


def test_what_is_trained_or_timed_otherwise_stays_apart(tmp_path):
    plain_run(tmp_path / "0_a", config(loss="hinge", threads=1))
    plain_run(tmp_path / "1_b", config(loss="hinge", threads=2))
    mine = {"loss": {"name": "hinge", "_target_": "mine.Loss"}, "threads": 1}
    plain_run(tmp_path / "2_c", config() | mine)
    assert [group.name for group in groups_of(tmp_path)] == [
        "threads=1, loss._target_=null",
        "threads=2, loss._target_=null",
        "threads=1, loss._target_=mine.Loss",
    ]


def test_names_say_what_tells_runs_apart_and_no_more(tmp_path):
    """Presets differ in many keys that follow from one: a name with all of them is as long as the page."""
    plain_run(tmp_path / "0_a", config(loss="began", clip_gradients="off", batch_size=16, prior="uniform"))
    plain_run(tmp_path / "1_b", config(loss="hinge", clip_gradients=0.9, batch_size=32, prior="normal"))
    plain_run(tmp_path / "2_c", config(loss="hinge", clip_gradients=0.9, batch_size=32, prior="normal", dataset="ring"))
    assert [group.name for group in groups_of(tmp_path)] == [
        "loss=began, dataset=digits",
        "loss=hinge, dataset=digits",
        "loss=hinge, dataset=ring",
    ]
    page = call("report", tmp_path).read_text()
    assert re.findall("<th>(.*?)</th>", page)[:4] == ["run", "state", "loss", "dataset"]
    assert "All 5 settings in which they differ" in page
    assert "<th>clip_gradients</th><td>off</td><td>0.9</td><td>0.9</td>" in page


def test_runs_of_one_name_are_told_apart_by_the_folders_above(tmp_path):
    found = [runs.read(plain_run(tmp_path / name, config())) for name in ("a/0_run", "b/0_run", "c")]
    assert comparing.folder_names(found) == ["a/0_run", "b/0_run", "c"]


def test_pictures_of_a_sweep_are_named_by_what_differs_and_the_seed_if_no_two_have_the_same(tmp_path):
    for number, (strategy, seed) in enumerate([("detach", 0), ("detach", 1), ("joint", 0)]):
        plain_run(tmp_path / f"{number}_a", config(seed, strategy=strategy), pictures=("samples",))
    named = "<figcaption>(.*?) ·"
    captions = ["strategy=detach, seed 0", "strategy=detach, seed 1", "strategy=joint, seed 0"]
    assert re.findall(named, call("report", tmp_path).read_text()) == captions
    plain_run(tmp_path / "3_a", config(0, strategy="joint"), pictures=("samples",))
    assert re.findall(named, call("report", tmp_path).read_text()) == [f"{number}_<wbr>a" for number in range(4)]


def test_rows_are_laid_beside_each_other_by_iteration_not_by_number(tmp_path):
    plain_run(tmp_path / "0_a", config(0), values=np.arange(5, 105, 5).tolist(), every=5)  # the value is the iteration
    plain_run(tmp_path / "1_b", config(1), values=np.arange(10, 60, 10).tolist(), every=10)
    (group,) = groups_of(tmp_path)
    band, line, beyond = over_iterations(charts.chart("loss/d", [group]))["data"]
    assert line["x"] == line["y"] == [10, 20, 30, 40, 50]
    assert band["y"] == [*line["y"], *line["y"][::-1]]
    assert beyond["x"] == beyond["y"] == list(range(50, 105, 5))
    assert beyond["line"]["width"] < line["line"]["width"]


def test_a_diverged_seed_is_a_gap_not_left_out_of_the_mean(tmp_path):
    plain_run(tmp_path / "0_a", config(0), values=(1.0, float("nan"), 3.0))
    plain_run(tmp_path / "1_b", config(1), values=(1.0, 1.0, float("inf")))
    band, line = charts.chart("loss/d", groups_of(tmp_path))["data"]
    assert line["y"] == [1.0, None, None]
    assert band["y"] == [1.0, 1.0]


def test_groups_keep_their_look_in_all_charts_and_no_two_look_alike(tmp_path):
    for i in range(12):
        plain_run(tmp_path / f"{i}_a", config(strategy=f"s{i}"), keys=("loss/d",) if i else ("loss/g",))
    charted = figures(call("report", tmp_path).read_text())
    (line,) = charted["loss/g"]["data"]
    assert line["meta"] == 0
    lines = [(trace["meta"], trace["line"]["color"], trace["line"]["dash"]) for trace in charted["loss/d"]["data"]]
    assert [number for number, *_ in lines] == list(range(1, 12))
    assert len({look for _, *look in map(tuple, lines) for look in [tuple(look)]}) == 11
    assert not any(figure["layout"]["showlegend"] or "title" in figure["layout"] for figure in charted.values())


def test_pictures_come_behind_the_curves_and_are_turned_together(tmp_path):
    page = call("report", str(plain_run(tmp_path / "run", config(), pictures=("samples", "reconstructions")))).read_text()
    assert re.findall("<figcaption>(.*?) ·", page) == ["run", "run"]
    assert re.findall("<h2>(.*?)</h2>", page)[:4] == ["Curves", "Samples", "Reconstructions", "Runs"]
    ((last, slider),) = re.findall(r'<input type="range" .*? max="(\d+)" .*? data-iterations="(.*?)">', page)
    frames = re.findall(r'<script type="application/json">(.*?)</script>', page)
    iterations = sorted({at for one in frames for at, _ in json.loads(one)})
    assert json.loads(slider) == iterations
    assert int(last) == len(iterations) - 1
    assert len(iterations) > 1


def test_a_page_has_a_short_title_and_lists_what_its_runs_share():
    one = plain(composed("loss=hinge", "penalty=[r1]", "penalty.r1.weight=2", "optimizer.lr=1e-3", "generator.width=16"))
    other = plain(composed("loss=hinge", "strategy=joint", "generator.width=16", "penalty=[r1]", "seed=3", "clip_gradients=1"))
    runs = [RecordedRun(Path("a_very_long_name"), config=config) for config in (one, other)]
    assert heading(runs[:1], "x") == "digits, hinge, detach"
    assert heading(runs, "x") == "2 runs: digits, hinge"
    assert heading([RecordedRun(Path("broken"))], "broken") == "broken"
    told = {**listed(runs[:1])}
    assert (told["penalty"], told["generator"]) == ("[r1] r1.weight=2", "dcgan width=16")
    assert {"seed": "0", "batch_size": "32", "iterations": "2500"}.items() <= told.items()
    assert told["optimizer"].split()[:2] == ["adam", "lr=0.001"]
    assert not {"wrapper", "augment", "precision", "clip_gradients"} & told.keys()
    assert "seed" not in listed(runs)
    assert listed(runs[1:])["clip_gradients"] == "1"
    assert "a_very_long_name" in section(runs[:1])
