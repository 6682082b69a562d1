"""R3GAN's ablation: its arms fit together, each trial is run once, and its table has intervals beside the published figures."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import pairing
from ganexp.cli.composing import compose
from ganexp.config.check import check
from ganexp.logging.layout import RunFolder
from published import trials
from published.pairing import PUBLISHED, Trial, append, judged, results, summary, wanted


def test_every_arm_has_its_loss_and_its_penalty_alone():
    found = {}
    for trial in wanted(1):
        by_key = check(compose(*trial.overrides), trust=None).parts.by_key
        found[trial.loss, trial.penalty] = (
            type(by_key["loss"]).__name__.lower(),
            {type(part).__name__.lower() for key, part in by_key.items() if key.startswith("penalty")},
        )
    assert found == {(loss, penalty): (loss, {penalty}) for loss, penalty in PUBLISHED}


def test_a_trial_is_run_once_and_one_that_diverged_has_failed(tmp_path, monkeypatch):
    asked = []

    def train(words):
        asked.append(words[0])
        place = RunFolder(tmp_path / "runs" / next(word for word in words if "hydra.run.dir" in word).rpartition("/")[2])
        place.path.mkdir(parents=True)
        row = {"progress/iteration": 2000, "eval/modes": 900, "eval/high_quality": 1, "eval/mode_kl": 0.5}
        rows = [row]
        if "penalty=[r1]" in words:
            place.divergence.write_text("{}")
        else:
            rows.append(row | {"progress/iteration": 6000, "eval/modes": 1000})
        place.rows.write_text("".join(json.dumps(one) + "\n" for one in rows))

    monkeypatch.setattr(trials, "train", train)
    words = ["--seeds", "1", "--results", str(tmp_path / "p.csv"), "--folder", str(tmp_path / "runs")]
    said = pairing.main(words)
    assert len(asked) == 4
    assert pairing.main(words) == said
    assert len(asked) == 4
    found = results(tmp_path / "p.csv")
    assert found[Trial("rpgan", "r1r2", 0)][6000] == (1000, 1, 0.5)
    assert found[Trial("rpgan", "r1", 0)][6000] == (0, 0, math.log(1000))


def test_a_trial_that_does_not_finish_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "train", lambda words: None)
    with pytest.raises(SystemExit) as end:
        pairing.main(["--results", str(tmp_path / "p.csv"), "--folder", str(tmp_path)])
    assert "rpgan-r1r2-0 did not finish" in str(end.value)


def test_means_have_students_intervals(tmp_path):
    modes = np.array([700.0, 650.0, 720.0])
    for seed, of in enumerate(modes):
        append(tmp_path / "p.csv", Trial("nonsaturating", "r1r2", seed), {2000: (1, 0, 1), 6000: (of, 1, 0.5)})
    low, high = stats.t.interval(0.95, 2, modes.mean(), stats.sem(modes))
    text = summary(results(tmp_path / "p.csv"))
    assert f"`r1r2`, 3 seeds | 1 [1, 1] | 690 [{low:.0f}, {high:.0f}] | 693 | 0.50 [0.50, 0.50] | 0.93 |" in text
    assert "| modes after 2,000 | modes after 6,000 |" in text
    assert summary({}) == "No trial has ended yet."


def test_the_verdict_follows_from_the_shares_of_the_modes():
    def found(**modes):
        arms = zip(PUBLISHED, modes.values(), strict=True)
        return {Trial(*arm, seed): {6000: (each, 1, 0.5)} for arm, of in arms for seed, each in enumerate(of)}

    as_published = found(own=[1000, 998, 1000], unpaired=[700, 690, 720], r1=[0, 12, 0], neither=[0, 0, 0])
    assert judged(as_published) == "**confirmed**: Confirmed in every case."
    covered = found(own=[1000] * 3, unpaired=[990, 985, 995], r1=[0, 12, 0], neither=[990, 10, 600])
    assert judged(covered) == (
        "**depends**: Confirmed: `rpgan` with `r1r2` covers all modes; `rpgan` with `r1` loses modes. "
        "Refuted: `nonsaturating` with `r1r2` loses modes. Undecided: `nonsaturating` with `r1` loses modes."
    )
    assert judged(found(own=[1000], unpaired=[], r1=[], neither=[])) == "**undecided**: Undecided in every case."


def test_the_page_has_the_verdict_that_follows_from_the_file():
    verdict = judged(results(trials.ROOT / "docs" / "claims" / "claim_13.csv"))
    page = (trials.ROOT / "docs" / "claims.md").read_text()
    assert f"\n\n{verdict}\n\n<!-- table: pairing -->" in page
    assert f"| {verdict.replace(': ', ' | ', 1)} |" in page
