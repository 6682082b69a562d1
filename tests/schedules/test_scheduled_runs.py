"""Schedules from the command line's configuration: refused, logged, resumed."""

import copy

import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.config.schema import ConfigError
from tests.composing import composed
from tests.tiny import iterate
from tests.training.test_resume import DATA, EVERY, TINY, assert_same, rows, state, trained

SETTINGS = [*DATA, *EVERY, *TINY]
BEGAN = [*DATA, *EVERY, "loss=began", "generator=began", "discriminator=began", "dataset.image_size=16"]
BEGAN += ["generator.width=2", "discriminator.width=2", "schedule=stalled", "schedule.every=2", "schedule.patience=1"]
CASES = {
    "linear": [*SETTINGS, "schedule=linear", "schedule.begin=2"],
    "cosine, momentum": [*SETTINGS, "schedule=cosine", "schedule.warm_up=3", "optimizer=negative_momentum"],
    "of g": [*SETTINGS, "schedule=cosine", "schedule.of=g", "optimizer=rmsprop"],
    "stalled": BEGAN,
}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["schedule=linear", "schedule.end=2501"], "schedule.end=2501 lies beyond the run's 2500 iterations: lower it"),
        (["schedule=cosine", "schedule.warm_up=2500"], "schedule.warm_up=2500 should be less than its end, which is 2500"),
        (["schedule=linear", "schedule.begin=9", "schedule.end=9"], "schedule.begin=9 should be less than its end"),
        (["schedule=linear", "schedule.final=2"], "schedule.final should be less than or equal to 1, not 2"),
        (["schedule=linear", "schedule.of=x"], "schedule.of should be 'both', 'd' or 'g', not x"),
        (["schedule=stalled"], "observes began/convergence, which the loss does not measure: choose loss=began"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(wrong, sentence):
    with pytest.raises(ConfigError, match=sentence):
        check(composed(*wrong))


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_is_the_undisturbed_one(case, tmp_path):
    whole = trained(tmp_path / "whole", CASES[case], 11)
    trained(tmp_path / "cut", CASES[case], 11, stop_after=7)
    resumed = trained(tmp_path / "cut", CASES[case], 11, resume=True)
    assert_same(state(whole), state(resumed))
    assert rows(tmp_path / "whole") == rows(tmp_path / "cut")
    logged = [[row[f"lr/{one}"] for row in rows(tmp_path / "cut") if "loss/d" in row] for one in "dg"]
    assert len(set(logged[1])) > 1
    assert (len(set(logged[0])) > 1) == (case != "of g")


def test_more_iterations_keep_the_end_of_the_first_start(tmp_path):
    settings = [*SETTINGS, "schedule=linear", "schedule.final=0.5", "optimizer.lr=1.0"]
    trained(tmp_path, settings, 6)
    assert trained(tmp_path, settings, 12, resume=True).step.schedule.end == 6
    assert [row["lr/d"] for row in rows(tmp_path) if "lr/d" in row] == pytest.approx([0.75, 1 - 0.5 * 5 / 6, 0.5, 0.5])


def test_without_a_schedule_no_rate_is_logged_or_kept(tmp_path):
    made = trained(tmp_path, SETTINGS, 4)
    assert not any(key.startswith("lr/") for row in rows(tmp_path) for key in row)
    assert made.state_dict()["step"]["schedule"] == {}
    kept = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)["run"]["gan"]["optimizer_d"]
    assert "initial_lr" not in kept["param_groups"][0]


def test_a_rollback_goes_back_in_the_schedule_too():
    made = build(composed(*SETTINGS, "schedule=linear", "iterations=9"))
    iterate(made, 6)
    before = copy.deepcopy(made.state_dict())
    iterate(made, 3)
    assert made.state_dict()["step"]["schedule"] == {"done": 9, "end": 9}
    made.load_state_dict(before)
    assert made.step.schedule.done == 6
    assert float(made.gan.optimizer_d.param_groups[0]["lr"]) == pytest.approx(5e-4 / 3)
