"""Runs that go wrong: noticed at the next row, written down, and stopped, warned about or rolled back."""

import json
import math
import signal
import time
from functools import partial

import pytest
import torch
from torch import nn

from ganexp import build
from ganexp.strategies.base import as_strategy
from ganexp.training import Diverged, checkpoint
from ganexp.training.guard import divergence_of, unfit
from tests.composing import composed
from tests.small_runs import CONVOLUTIONAL, SMALL
from tests.small_runs import untimed as rows
from tests.tiny import BATCH, CASES, tiny_gan, tiny_trainer

SETTINGS = [*SMALL, "log_every=2", "checkpoint_every=2", "iterations=12"]


def poisoned(folder, *further, at=5, times=1, network="generator", value=math.nan):
    """Build a run one of whose networks gets a bad value, at an iteration, so many times."""
    trainer = build(composed(*SETTINGS, *further), folder)
    strategy, left = trainer.step.strategy, [times]

    def poison(gan, reals, **steps):
        strategy(gan, reals, **steps)
        if trainer.iteration + 1 == at and left[0]:
            left[0] -= 1
            with torch.no_grad():
                next(getattr(gan, network).parameters()).fill_(value)

    trainer.step.strategy = as_strategy(poison)
    return trainer


def test_a_run_that_diverges_stops_with_its_last_good_checkpoint(tmp_path):
    trainer = poisoned(tmp_path)
    with pytest.raises(Diverged, match=r"Diverged at iteration 6: .*loss/d is nan.* The last good checkpoint is .*last.pt"):
        trainer.fit()
    assert checkpoint.load(tmp_path / "checkpoints" / "last.pt")["run"]["iteration"] == 4
    assert json.loads((tmp_path / "summary.json").read_text())["state"] == "failed"
    report = json.loads((tmp_path / "divergence.json").read_text())
    assert math.isnan(report["row"]["loss/d"])
    assert -1 <= report["batch"]["reals"]["min"] < report["batch"]["reals"]["mean"] < report["batch"]["reals"]["max"] <= 1
    assert [row["progress/iteration"] for row in rows(tmp_path)] == [0, 2, 4, 6]


def test_what_callbacks_look_at_does_not_count():
    assert divergence_of({"loss/d": 2e8}) == "loss/d is 2e+08"
    assert not divergence_of({"dynamics/d_largest": 2e8, "eval/fid": 1e9})


def test_a_warning_goes_on(tmp_path, caplog):
    poisoned(tmp_path, "on_divergence=warn").fit()
    assert caplog.text.count("Diverged at iteration") == 4
    assert checkpoint.load(tmp_path / "checkpoints" / "last.pt")["run"]["iteration"] == 4  # nothing that is not finite is kept


def test_a_rollback_takes_other_latents_and_gets_through(tmp_path, caplog):
    trainer = poisoned(tmp_path, "on_divergence=rollback")
    start = time.perf_counter()
    summary = trainer.fit()
    assert summary["wall_s"] <= time.perf_counter() - start
    assert trainer.guard.rollbacks == 1
    assert "Back to iteration 4, with other latents." in caplog.text
    written = rows(tmp_path)
    assert [row["progress/iteration"] for row in written] == [0, 2, 4, 6, 7, 8, 10, 12]
    assert all(math.isfinite(value) for row in written for value in row.values() if not isinstance(value, str))
    untouched = build(composed(*SETTINGS), tmp_path / "untouched")
    untouched.fit()
    assert rows(tmp_path / "untouched")[:3] == written[:3]
    assert rows(tmp_path / "untouched")[3] != written[3]


def test_the_best_checkpoint_stays_the_best_through_a_rollback(tmp_path):
    trainer = poisoned(tmp_path, "on_divergence=rollback", "keep_best=loss/d")
    strategy = trainer.step.strategy

    def reach(gan, reals, **steps):
        strategy(gan, reals, **steps)
        if trainer.iteration == 4 and not trainer.guard.rollbacks:
            trainer.checkpoints.lowest = -7.0  # after the checkpoint that the run goes back to

    trainer.step.strategy = as_strategy(reach)
    trainer.fit()
    assert (trainer.guard.rollbacks, trainer.checkpoints.lowest) == (1, -7)


def test_what_was_seen_after_the_checkpoint_of_a_rollback_is_not_told_at_the_end(tmp_path):
    trainer = poisoned(tmp_path, "on_divergence=rollback", "sample_every=5", at=6)
    strategy = trainer.step.strategy

    def stop(gan, reals, **steps):
        strategy(gan, reals, **steps)
        if trainer.iteration == 7:
            assert "diversity/distance" in trainer.last_row
            trainer.stopping.received = signal.SIGTERM

    trainer.step.strategy = as_strategy(stop)
    summary = trainer.fit()
    assert (summary["iteration"], trainer.guard.rollbacks) == (4, 1)
    assert "loss/d" in summary["last"]
    assert "diversity/distance" not in summary["last"]


def test_rollbacks_end(tmp_path):
    trainer = poisoned(tmp_path, "on_divergence=rollback", times=100)
    with pytest.raises(Diverged, match="Diverged at iteration 6"):
        trainer.fit()
    assert trainer.guard.rollbacks == 5


def test_a_run_is_not_rolled_back_to_what_an_earlier_one_left_in_its_folder(tmp_path):
    tiny_trainer(folder=tmp_path).fit()
    reals = [torch.randn(BATCH, 2)]
    later = tiny_trainer(reals=reals, folder=tmp_path, log_every=2, on_divergence="rollback")
    with torch.no_grad():
        next(later.gan.generator.parameters()).fill_(math.nan)
    with pytest.raises(Diverged) as raised:
        later.fit()
    assert "checkpoint" not in str(raised.value)
    assert later.iteration == 2


def test_values_out_of_any_range_are_divergence_too(tmp_path):
    trainer = poisoned(tmp_path, "loss=wgan", "penalty=[]", network="discriminator", value=1e20)
    with pytest.raises(Diverged, match="score/fake is"):
        trainer.fit()


def test_a_checkpoint_is_kept_only_while_all_is_well(tmp_path, caplog):
    """Rows are far apart: between them, checkpoints are judged by the losses so far."""
    settings = [*SMALL, "loss=wgan", "penalty=[]", "log_every=1000", "checkpoint_every=10", "sample_every=0"]
    settings += ["iterations=60", "keep_checkpoints=1"]
    trainer = build(composed(*settings), tmp_path)
    strategy = trainer.step.strategy

    def blow_up(gan, reals, **steps):
        strategy(gan, reals, **steps)
        if trainer.iteration == 24:
            for group in [*gan.optimizer_g.param_groups, *gan.optimizer_d.param_groups]:
                group["lr"] = 1e6

    trainer.step.strategy = as_strategy(blow_up)
    with pytest.raises(Diverged):
        trainer.fit()
    kept = checkpoint.load(tmp_path / "checkpoints" / "last.pt")["run"]
    assert kept["iteration"] == 20
    assert caplog.text.count("No checkpoint at iteration") == 3
    assert all(value.abs().max() < 10 for value in kept["gan"]["generator"].values())


class Masked(nn.Module):
    """Has a mask, as attention has."""

    def __init__(self, inner, *, persistent=False):
        super().__init__()
        self.inner = inner
        self.register_buffer("mask", torch.full((2, 2), -math.inf).triu(1), persistent=persistent)

    def forward(self, x):
        return self.inner(x)


def test_a_mask_that_no_checkpoint_holds_may_be_infinite(tmp_path):
    tiny_trainer(gan=tiny_gan(CASES["nonsaturating"], wrap=Masked), folder=tmp_path, iterations=2).fit()
    assert (tmp_path / "checkpoints" / "last.pt").exists()
    held = tiny_gan(CASES["nonsaturating"], wrap=partial(Masked, persistent=True))
    assert unfit(held, {}) == "a buffer reaches inf (register a mask with persistent=False)"


def test_whatever_a_checkpoint_holds_is_judged():
    settings = [*CONVOLUTIONAL, "generator=dcgan", "discriminator=dcgan", "average.decay=0.9", "iterations=2"]
    trainer = build(composed(*settings))
    trainer.fit()
    gan = trainer.gan
    assert unfit(gan, trainer.step.average.networks()) == ""
    (first, *_) = gan.optimizer_d.state.values()
    places = {
        "generator": [*gan.generator.parameters()][-1],
        "discriminator": next(iter(gan.discriminator.parameters())),
        "ema": next(iter(trainer.step.average.generator.parameters())),
        "optimizer": first["exp_avg_sq"],
        "buffer": next(buffer for buffer in gan.generator.buffers() if buffer.is_floating_point()),
        "score": gan.meter.last_fake,
    }
    for place, tensor in places.items():
        whole = tensor.detach().clone()
        with torch.no_grad():
            tensor[(-1,) * tensor.dim()] = math.nan if place in ("optimizer", "buffer") else -1e9
            assert unfit(gan, trainer.step.average.networks()) != "", place
            tensor.copy_(whole)
    assert unfit(gan, trainer.step.average.networks()) == ""
    gan.meter.add({"loss/d": torch.tensor(1e12)})
    assert unfit(gan, trainer.step.average.networks()) != ""
