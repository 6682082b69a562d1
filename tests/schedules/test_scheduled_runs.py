"""Schedules from the command line's configuration: refused, logged, resumed."""

import copy
import math

import pytest
import torch

from ganexp import build
from ganexp.facts import UserError
from tests.composing import composed
from tests.small_runs import SMALL, assert_resumes, rows, trained
from tests.tiny import iterate


def test_more_iterations_keep_the_end_of_the_first_start(tmp_path):
    settings = [*SMALL, "schedule=linear", "schedule.final=0.5", "optimizer.lr=1.0"]
    trained(tmp_path, settings, 6)
    assert trained(tmp_path, settings, 12, resume=True).step.schedule.end == 6
    assert [row["lr/d"] for row in rows(tmp_path) if "lr/d" in row] == pytest.approx([0.75, 1 - 0.5 * 5 / 6, 0.5, 0.5])


@pytest.mark.parametrize("stop_after", [None, 4])
@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_more_iterations_at_a_rate_of_0_are_refused_and_a_later_end_is_taken(tmp_path, schedule, stop_after):
    settings = [*SMALL, f"schedule={schedule}", "optimizer.lr=1.0", "log_every=1", "checkpoint_every=2"]
    trained(tmp_path, settings, 6, stop_after=stop_after)
    with pytest.raises(UserError, match=r"schedule\.end=12, or .*init_from="):
        trained(tmp_path, settings, 12, resume=True)
    trained(tmp_path, [*settings, "schedule.end=12"], 12, resume=True)
    curve = (lambda t: 1 - t / 12) if schedule == "linear" else (lambda t: (1 + math.cos(math.pi * t / 12)) / 2)
    assert [row["lr/g"] for row in rows(tmp_path) if row["progress/iteration"] > 6] == pytest.approx(
        [*map(curve, range(6, 12))]
    )


def test_a_run_with_an_end_of_its_own_goes_on_after_it(tmp_path, caplog):
    assert_resumes(tmp_path, [*SMALL, "schedule=linear", "schedule.end=3"], 9, stop_after=6)
    assert "leaves learning rates at 0 from iteration 3 of 9" in caplog.text


def test_what_ends_before_a_run_that_goes_on_is_said(tmp_path, caplog):
    settings = [*SMALL, "schedule=linear", "schedule.final=0.5", "penalty=r1", "+moving.penalty.r1.weight=1.0"]
    trained(tmp_path, settings, 6)
    assert "iteration 6" not in caplog.text
    trained(tmp_path, settings, 12, resume=True)
    assert "schedule.end=12" in caplog.text
    assert "moving.penalty.r1.weight" in caplog.text


def test_without_a_schedule_no_rate_is_logged_or_kept(tmp_path):
    made = trained(tmp_path, SMALL, 4)
    assert not any(key.startswith("lr/") for row in rows(tmp_path) for key in row)
    assert made.state_dict()["step"]["schedule"] == {}
    kept = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)["run"]["gan"]["optimizer_d"]
    assert "initial_lr" not in kept["param_groups"][0]


def test_a_rollback_goes_back_in_the_schedule_too():
    made = build(composed(*SMALL, "schedule=linear", "iterations=9"))
    iterate(made, 6)
    before = copy.deepcopy(made.state_dict())
    iterate(made, 3)
    assert made.state_dict()["step"]["schedule"] == {"done": 9, "end": 9}
    made.load_state_dict(before)
    assert made.step.schedule.done == 6
    assert float(made.gan.optimizer_d.param_groups[0]["lr"]) == pytest.approx(5e-4 / 3)
