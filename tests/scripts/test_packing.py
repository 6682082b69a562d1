"""PacGAN's trials: each is run once, goes on where it was stopped, and is summed up with its standard error."""

import math
import threading
import time

import numpy as np
import pytest
from filelock import FileLock
from scipy import stats

import packing
from ganexp.logging.layout import RunFolder
from published import trials
from published.pacgan import TRIALS, Figures, Trial, append, p_of, results, summary
from tests.forked import train

SHORT = ["evaluate_every=2", "checkpoint_every=2", "dataset.n=2000", "generator.width=4", "discriminator.width=4"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Trials with two iterations an epoch, each run by a fork of this process; returns the words of each."""
    asked = []

    def forked(words):
        asked.append([*words])
        train(*words, cwd=tmp_path)

    monkeypatch.setattr(trials, "train", forked)
    monkeypatch.setattr(packing, "ITERATIONS", 2)
    return asked


def words(tmp_path, name, epochs, *further):
    places = ["--results", str(tmp_path / f"{name}.csv"), "--folder", str(tmp_path / name)]
    return ["--trials", "1", "--jobs", "1", "--epochs", str(epochs), *places, *further]


@pytest.mark.slow
def test_trials_are_run_once_and_go_on_to_where_an_uninterrupted_one_ends(tmp_path, here):
    said = packing.main(words(tmp_path, "whole", 2, "--further", *SHORT))
    assert [asked[:3] for asked in here] == [
        [f"experiment=pacgan_{data}", f"pack={pack}", "seed=0"]
        for data, pack in (("ring", 1), ("ring", 2), ("grid", 1), ("grid", 2))
    ]
    assert said.count("| 1 | 2 |") >= 4
    assert packing.main(words(tmp_path, "whole", 2)) == said
    assert len(here) == 4
    assert (tmp_path / "whole.png").stat().st_size > 1000
    packing.main(words(tmp_path, "halves", 1, "--further", *SHORT))
    assert packing.main(words(tmp_path, "halves", 2)) == said
    assert here[8] == [f"resume={tmp_path / 'halves' / 'ring-1-0-beta0.2'}", "iterations=4"]
    assert results(tmp_path / "halves.csv") == results(tmp_path / "whole.csv")
    (tmp_path / "whole.csv").unlink()
    assert packing.main(words(tmp_path, "whole", 2)) == said, "the folders still have them"
    assert len(here) == 12


def test_means_come_with_standard_errors_beside_the_published_ones(tmp_path):
    for seed, modes in enumerate((6.0, 8.0, 7.0)):
        append(tmp_path / "p.csv", Trial("ring", 2, seed, 0.8), {5: Figures(1, 0, 0), 10: Figures(modes, 0.5, 0.25)})
    append(tmp_path / "p.csv", Trial("ring", 2, 0, 0.8), {10: Figures(0, 0, 0), 15: Figures(8, 1, 0)})
    with (tmp_path / "p.csv").open("a") as file:
        file.write("ring,2,0")  # a process was killed
    assert len(results(tmp_path / "p.csv")) == 3
    error = 1 / math.sqrt(3)
    append(tmp_path / "p.csv", Trial("ring", 2, 0), {5: Figures(3, 1, 0)})
    found = results(tmp_path / "p.csv")
    assert "| ring | 2 | 0.2 | 1 | 5 | 3.0 (7.9 ± 0.1) | 100.0 (95.6 ± 2.0) | 0.00 (0.07 ± 0.03) |" in summary(found)
    of_three = f"7.0 ± {error:.1f} (7.9 ± 0.1) | 50.0 ± 0.0* (95.6 ± 2.0) | 0.25 ± 0.00* (0.07 ± 0.03) |"
    assert f"| ring | 2 | 0.8 | 3 | 10 | {of_three}" in summary(found)
    assert "grid" not in summary(found)
    assert summary({}) == "No trial has ended yet."


def test_the_comparison_with_published_means_is_welchs_test_of_the_trials_behind_them():
    ours, theirs = np.array([7.0, 8.0, 7.0]), np.random.default_rng(0).normal(6, 1, TRIALS)
    published = (theirs.mean(), theirs.std(ddof=1) / math.sqrt(TRIALS))
    assert p_of(ours, published) == pytest.approx(stats.ttest_ind(ours, theirs, equal_var=False).pvalue)
    assert math.isnan(p_of(ours[:1], published))


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "other.csv").write_text("part,workload\ntuning,ring\n")
    with pytest.raises(SystemExit) as end:
        packing.main(["--table", "--results", str(tmp_path / "other.csv")])
    assert "--results" in str(end.value)


def test_a_trial_that_does_not_finish_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "train", lambda words: None)
    with pytest.raises(SystemExit) as end:
        packing.main(words(tmp_path, "none", 1))
    assert "ring-1-0-beta0.2 did not finish" in str(end.value)
    assert not (tmp_path / "none.csv").exists()


def test_a_trial_that_was_killed_before_its_first_checkpoint_begins_again(tmp_path, monkeypatch):
    place = tmp_path / "killed" / "ring-1-0-beta0.2"
    left = RunFolder(place)
    asked = []
    monkeypatch.setattr(trials, "train", lambda words: asked.append((words[0], left.rows.exists())))
    place.mkdir(parents=True)
    left.rows.write_text('{"progress/iteration": 1000}\n')
    with pytest.raises(RuntimeError, match="did not finish"):
        packing.run(Trial("ring", 1, 0), 5, tmp_path / "killed")
    assert asked == [("experiment=pacgan_ring", False)]
    place.mkdir()
    with FileLock(left.lock), pytest.raises(RuntimeError, match="--folder"):  # another process trains there
        packing.run(Trial("ring", 1, 0), 5, tmp_path / "killed")
    assert place.exists()
    assert len(asked) == 1


def test_no_further_trial_begins_after_ctrl_c(tmp_path, monkeypatch):
    begun, interrupted = [], threading.Event()

    def run(trial, *_):
        begun.append(trial)
        if len(begun) > 1:
            interrupted.wait()
            time.sleep(1)
        return {1: Figures(8, 1, 0)}

    def append(*_):
        interrupted.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(packing, "run", run)
    monkeypatch.setattr(packing, "append", append)
    with pytest.raises(KeyboardInterrupt):
        packing.main(words(tmp_path, "none", 1))
    assert len(begun) <= 2
