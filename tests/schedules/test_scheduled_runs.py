"""Schedules from the command line's configuration: refused, logged, resumed."""

import copy

import pytest
import torch

from ganexp import build
from tests.composing import composed
from tests.small_runs import SMALL, rows, trained
from tests.tiny import iterate


def test_more_iterations_keep_the_end_of_the_first_start(tmp_path):
    settings = [*SMALL, "schedule=linear", "schedule.final=0.5", "optimizer.lr=1.0"]
    trained(tmp_path, settings, 6)
    assert trained(tmp_path, settings, 12, resume=True).step.schedule.end == 6
    assert [row["lr/d"] for row in rows(tmp_path) if "lr/d" in row] == pytest.approx([0.75, 1 - 0.5 * 5 / 6, 0.5, 0.5])


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
