"""PacGAN's trials: each is run once, goes on where it was stopped, and is summed up with its standard error."""

import math

import pytest

import packing
from published.pacgan import Trial, summary
from tests.forked import train

SHORT = [
    "iterations=4",
    "evaluate_every=2",
    "checkpoint_every=2",
    "dataset.n=2000",
    "generator.width=4",
    "discriminator.width=4",
]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Trials that are run by a fork of this process; returns the words of each."""
    asked = []

    def forked(words):
        asked.append([*words])
        train(*words, cwd=tmp_path)

    monkeypatch.setattr(packing, "train", forked)
    return asked


def words(tmp_path, *further):
    return ["--trials", "1", "--jobs", "1", "--results", str(tmp_path / "p.csv"), "--folder", str(tmp_path / "runs"), *further]


@pytest.mark.slow
def test_trials_are_run_once_and_one_that_was_stopped_goes_on(tmp_path, here):
    said = packing.main(words(tmp_path, "--further", *SHORT))
    assert [asked[:3] for asked in here] == [
        [f"experiment=pacgan_{data}", f"pack={pack}", "seed=0"]
        for data, pack in (("ring", 1), ("ring", 2), ("grid", 1), ("grid", 2))
    ]
    assert said.count("| 1 |") >= 4
    assert packing.main(words(tmp_path, "--further", *SHORT)) == said
    assert len(here) == 4
    lines = (tmp_path / "p.csv").read_text().splitlines()
    (tmp_path / "p.csv").write_text("\n".join(lines[:-1]) + "\n")
    (tmp_path / "runs" / "grid-2-0" / "summary.json").unlink()
    assert packing.main(words(tmp_path)) == said
    assert here[4] == [f"resume={tmp_path / 'runs' / 'grid-2-0'}"]


def test_means_come_with_standard_errors_beside_the_published_ones():
    found = {Trial("ring", 2, seed): [modes, 0.5, 0.25] for seed, modes in enumerate((6.0, 8.0, 7.0))}
    error = 1 / math.sqrt(3)
    assert f"| ring | 2 | 3 | 7.0 ± {error:.1f} | 7.9 ± 0.1 | 50.0 ± 0.0 % | 0.25 ± 0.00 |" in summary(found)
    assert "grid" not in summary(found)
    assert summary({}) == "No trial has ended yet."


def test_a_trial_that_does_not_finish_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "train", lambda words: None)
    with pytest.raises(SystemExit) as end:
        packing.main(words(tmp_path))
    assert "ring-1-0 did not finish" in str(end.value)
    assert not (tmp_path / "p.csv").exists()
