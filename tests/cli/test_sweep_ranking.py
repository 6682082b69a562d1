"""Sweeps that rank: what of jobs counts, by which direction, and how it is said on the screen and in sweep.csv."""

import csv
from pathlib import Path

import pytest
from scipy import stats

from ganexp.cli.sweeping import Results, Sweep
from ganexp.compare.outcomes import of_one_algorithm
from ganexp.logging.reading import RecordedRun
from tests import forked
from tests.calling import call
from tests.cli.handmade_sweeps import make_sweep

NAN = float("nan")
classes = {"one_stage": "OneStage", "extragradient": "Extragradient"}
SEARCH = ("hydra/sweeper=search", "d_steps=range(1,3)", "sweep.metric=loss/g")
COMBINATIONS = {
    "loss=hinge": [2.0, 2.2, 2.1],
    "loss=wgan": [2.1, "failed", 2.15],
    "loss=lsgan": [8.0, 8.3, NAN],
    "loss=began": ["skipped", "skipped", "skipped"],
    "loss=ebgan": ["missing", 1.0, "stale"],
}
TABLE = """\
Ranked by eval/fid, lowest first
   combination  seeds   eval/fid [95 %]       p
*  ebgan        1 of 3  1                     best
?  hinge        3       2.10 [2.00, 2.20]     best has one seed
?  wgan         2 of 3  2.125 [2.100, 2.150]  best has one seed
?  lsgan        2 of 3  8.15 [8.00, 8.30]     best has one seed
   began        0 of 3                        no figure
"""


def test_only_finite_figures_in_the_last_row_of_finished_jobs_count_and_the_others_are_named(tmp_path):
    text = Results.read(make_sweep(tmp_path, COMBINATIONS)).ranking_text(100)
    assert text.startswith(TABLE)
    for said in (
        "No figure: job 4 failed.",
        "No figure: job 8 diverged: eval/fid is nan.",
        "No figure: job 9, job 10, job 11 skipped.",
        "No figure: job 12 missing.",
        "No figure: job 14 finished without eval/fid in the last row.",
    ):
        assert said in text.splitlines()


def test_the_csv_has_what_each_jobs_combination_reached(tmp_path):
    folder = make_sweep(
        tmp_path, {name: COMBINATIONS[name] for name in ("loss=hinge", "loss=wgan", "loss=lsgan", "loss=began")}
    )
    with Results.read(folder).write_csv().open() as file:
        rows = list(csv.DictReader(file))
    assert [row["ranking/standing"] for row in rows] == [
        standing for standing in ("best", "not distinguishable", "worse", "no figure") for _ in range(3)
    ]
    assert {row["ranking/seeds"] + "+" + row["ranking/without_figure"] for row in rows[3:9]} == {"2+1"}
    # Of three seeds one resample in 27 has the lowest alone, which is more than 2.5 %.
    assert (float(rows[0]["ranking/low"]), float(rows[0]["ranking/high"])) == pytest.approx((2.0, 2.2))
    near = stats.ttest_rel([2.0, 2.1], [2.1, 2.15]).pvalue  # seed 1 of wgan has failed
    far = stats.ttest_rel([2.0, 2.2], [8.0, 8.3]).pvalue
    between = stats.ttest_ind([2.1, 2.15], [8.0, 8.3], equal_var=False).pvalue  # their seeds are 0, 2 and 0, 1
    assert far < between < near
    assert float(rows[3]["ranking/p"]) == pytest.approx(near)
    assert float(rows[6]["ranking/p"]) == pytest.approx(3 * far)
    assert rows[9]["ranking/mean"] == rows[9]["ranking/p"] == rows[9]["ranking/place"] == ""


def test_without_a_metric_all_is_as_before(tmp_path):
    folder = make_sweep(tmp_path, COMBINATIONS)
    Sweep(("a",), ("loss", "seed"), Sweep.load(folder).jobs).save(folder)
    assert Results.read(folder).ranking_text() == ""
    assert "ranking" not in Results.read(folder).write_csv().read_text()


@pytest.mark.parametrize(
    ("declared", "direction", "first"),
    [
        ("lowest", "auto", "a"),
        ("highest", "auto", "b"),
        ("highest", "minimize", "a"),
        ("", "maximize", "b"),
    ],
)
def test_the_direction_is_what_was_said_else_what_the_key_declares(declared, direction, first, tmp_path):
    measure = {"meaning": "recall", "best": declared}
    each = {"loss=a": [1.0, 1.1], "loss=b": [3.0, 3.1]}
    make_sweep(tmp_path, each, "eval/recall", direction, dict.fromkeys(each, measure))
    (ranking,), _ = Results.read(tmp_path).rankings()
    assert ranking.places[0].combination == first


def test_a_key_without_a_direction_is_not_ranked_and_the_remedy_is_named(tmp_path):
    found = Results.read(make_sweep(tmp_path, {"loss=a": [0.01], "loss=b": [0.9]}, "diversity/relative"))
    assert "ganexp report FOLDER --metric diversity/relative --direction minimize, or maximize" in found.ranking_text(400)
    assert "ranking/" not in found.write_csv().read_text()
    call("report", tmp_path)
    assert "Not ranked: diversity/relative does not say" in (tmp_path / "report.html").read_text()
    with pytest.raises(SystemExit, match=r"diversity/relative does not say which of its values are best"):
        call("report", tmp_path, "--metric", "diversity/relative")
    call("report", tmp_path, "--metric", "diversity/relative", "--direction", "maximize")
    assert "Ranked by diversity/relative, highest first" in (tmp_path / "report.html").read_text()


def test_what_every_run_logs_declares_its_direction_too(tmp_path):
    make_sweep(tmp_path, {"loss=a": [1.0], "loss=b": [3.0]}, "speed/images_per_s")
    assert Results.read(tmp_path).ranking_text().startswith("Ranked by speed/images_per_s, highest first\n")


def test_figures_by_other_features_or_on_other_data_are_ranked_apart(tmp_path):
    each = {"loss=a": [1.0, 1.1], "loss=b": [3.0, 3.1], "loss=c": [0.1, 0.2], "loss=d": [0.5, 0.6]}
    by = dict(zip(each, ("classifier 3f", "classifier 3f", "inception 0a", "inception 0a"), strict=True))
    measures = {
        name: {"meaning": "Fréchet distance", "basis": f"features: {basis}", "note": f"of {basis[:9]}"}
        for name, basis in by.items()
    }
    text = Results.read(make_sweep(tmp_path / "features", each, measures=measures)).ranking_text(80)
    first, second, *_ = text.split("\n\n")
    assert first.startswith("Ranked by eval/fid, lowest first; features: classifier 3f\n")
    assert second.startswith("Ranked by eval/fid, lowest first; features: inception 0a\n")
    assert [line[3] for line in first.splitlines()[2:]] == ["a", "b"]
    assert [line[3] for line in second.splitlines()[2:]] == ["c", "d"]
    assert "Of classifie.\nOf inception.\n" in text
    data = {"loss=a": {"name": "ring", "n": 10}, "loss=b": {"name": "ring", "n": 20}}
    text = Results.read(make_sweep(tmp_path / "data", dict(list(each.items())[:2]), datasets=data)).ranking_text(80)
    assert "lowest first; dataset.n=10\n" in text
    assert "lowest first; dataset.n=20\n" in text


def test_the_table_says_by_what_figures_were_measured_once(tmp_path):
    told = {
        "meaning": "Fréchet distance, features: raw, 9 samples; real data, two halves of 9: 0.5",
        "basis": "features: raw, 9 samples",
    }
    each = {"loss=a": [1.0, 1.1], "loss=b": [3.0, 3.1]}
    lines = Results.read(make_sweep(tmp_path, each, measures=dict.fromkeys(each, told))).table().splitlines()
    assert lines[5:] == [
        "Measured with features: raw, 9 samples.",
        "eval/fid is the Fréchet distance (lowest is best; real data, two halves of 9: 0.5).",
    ]


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({"strategy": ["joint", "detach", "g_first", "one_stage", "retain_graph"]}, 2),
        ({"strategy": ["joint", "g_first"], "g_steps": 2}, 0),
        ({"strategy": ["joint", "extragradient"]}, 0),
    ],
)
def test_strategies_that_are_one_algorithm_are_named(of, said):
    runs = [
        RecordedRun(
            Path(), config=of | {"strategy": {"name": name, "_target_": f"ganexp.strategies.{classes.get(name, name)}"}}
        )
        for name in of["strategy"]
    ]
    sentences = of_one_algorithm(runs)
    assert len(sentences) == said
    if said:
        assert sentences[0] == "joint, g_first and one_stage are one algorithm: their updates are equal, apart from rounding."
        assert sentences[1].startswith("detach and retain_graph are one algorithm")


def test_seeds_alone_are_one_combination(tmp_path):
    Sweep(("a",), ("seed",), (("seed=0",), ("seed=1",)), "eval/fid").save(tmp_path)
    assert "Nothing to rank: no finished job has a finite eval/fid" in Results.read(tmp_path).ranking_text()
    assert "No figure: job 0, job 1 missing." in Results.read(tmp_path).ranking_text()


def test_two_directions_that_contradict_each_other_are_refused(tmp_path):
    done = forked.train("-m", *SEARCH, "sweep.direction=maximize", "hydra.sweeper.direction=minimize", cwd=tmp_path)
    assert done.returncode != 0
    said = "sweep.direction=maximize contradicts hydra.sweeper.direction=minimize: leave out one of them."
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "outputs").exists()
