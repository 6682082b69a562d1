"""The loop: what it counts, writes and leaves, and that watching does not steer."""

import json
import math
import signal
import sys

import numpy as np
import pytest
import torch

import ganexp.training.trainer
from ganexp import build, strategies, wrappers
from ganexp.data import Resident
from ganexp.logging import FolderLogger
from ganexp.logging.keys import known
from ganexp.training import Checkpoints
from tests.composing import composed, discriminator_for, each_with_a_usual_one
from tests.small_runs import NARROW, Rows, assert_never_waits
from tests.tiny import BATCH, CASES, KINDS, STRATEGIES, iterate, real_batches, state, tiny_gan
from tests.tiny import tiny_trainer as trainer

ALWAYS = {
    "loss/d", "loss/g", "score/real", "score/fake", "time/iteration_ms", "time/data_ms", "time/d_ms", "time/g_ms",
    "speed/images_per_s", "memory/peak_mib", "grad_norm/d", "grad_norm/g",
    "progress/iteration", "progress/real_images", "progress/d_updates", "progress/g_updates",
    "progress/wall_s",
}  # fmt: skip


@pytest.mark.parametrize("loss", KINDS)
def test_rows_have_the_keys_that_dashboards_rely_on(loss):
    logger = Rows()
    trainer(loss, log_every=4, loggers=[logger]).fit()
    further = {
        "began": {"began/k_t", "began/convergence"},
        "wgan_gp": {"loss/penalty"},
        "softmaxgan": {"softmaxgan/d_excess", "softmaxgan/g_excess"},
    }
    assert [row["progress/iteration"] for row in logger.rows] == [4, 8, 10]
    assert all(set(row) == ALWAYS | further.get(loss, set()) for row in logger.rows)
    assert set(logger.rows[0]) <= set(known(CASES[loss].loss().measures))
    assert all(type(value) in (int, float) for row in logger.rows for value in row.values())
    assert logger.ticks == 10
    assert logger.closed == ["finished"]


def test_rows_hold_means_over_their_interval_and_norms_of_the_last_iteration():
    logger, by_hand = Rows(), tiny_gan(CASES["nonsaturating"])
    trainer(log_every=3, iterations=6, loggers=[logger]).fit()
    reals, hand = real_batches(), []
    G, D, bce = by_hand.generator, by_hand.discriminator, torch.nn.functional.softplus
    for _ in range(6):
        x, fake = next(reals), G(by_hand.sample().values)
        r, f = D(x), D(fake.detach())
        by_hand.optimizer_d.zero_grad()
        (bce(-r).mean() + bce(f).mean()).backward()
        row = {"loss/d": (bce(-r).mean() + bce(f).mean()).item(), "score/real": r.mean().item(), "score/fake": f.mean().item()}
        row["grad_norm/d"] = math.sqrt(sum(p.grad.square().sum().item() for p in D.parameters()))
        by_hand.optimizer_d.step()
        by_hand.optimizer_g.zero_grad()
        loss = bce(-D(fake)).mean()
        loss.backward()
        row |= {"loss/g": loss.item()}
        row["grad_norm/g"] = math.sqrt(sum(p.grad.square().sum().item() for p in G.parameters()))
        by_hand.optimizer_g.step()
        hand.append(row)
    for row, part in zip(logger.rows, (slice(0, 3), slice(3, 6)), strict=True):
        for key in ("loss/d", "loss/g", "score/real", "score/fake"):
            assert row[key] == pytest.approx(np.mean([at[key] for at in hand[part]]), rel=1e-8)
        for key in ("grad_norm/d", "grad_norm/g"):
            assert row[key] == pytest.approx(hand[part][-1][key], rel=1e-8)
        assert row["memory/peak_mib"] > 1


def test_the_penalty_is_logged_apart_from_the_loss():
    penalties, logger = [], Rows()
    run = trainer("wgan_gp", log_every=4, iterations=4, loggers=[logger])

    class Spy(type(run.gan.penalty)):
        def __call__(self, *arguments):
            penalties.append(super().__call__(*arguments))
            return penalties[-1]

    run.gan.penalty = Spy(weight=3.0)
    run.fit()
    assert [values.shape for values in penalties] == 4 * [(BATCH,)]
    mean = np.mean([values.mean().item() for values in penalties])
    assert logger.rows[-1]["loss/penalty"] == pytest.approx(3 * mean, rel=1e-9)


def test_a_strategy_that_moves_one_network_only_can_be_watched():
    from ganexp.strategies.steps import d_step

    logger = Rows()
    trainer(strategy=lambda gan, reals, d_steps, g_steps: d_step(gan, reals), log_every=5, loggers=[logger]).fit()
    assert logger.rows[-1]["progress/d_updates"] == 10
    assert "loss/g" not in logger.rows[-1]


def counting(state_dict):
    """A strategy that counts its iterations, under two names, and returns a state."""

    class Counting(strategies.Strategy):
        number, _rate, fixed = 0, 1.0, 7

        def __call__(self, gan, reals, *, d_steps, g_steps):
            self.number += 1
            self._rate /= 2
            strategies.detach(gan, reals, d_steps=d_steps, g_steps=g_steps)

        def state_dict(self):
            return state_dict(self)

    return Counting()


@pytest.mark.parametrize(
    ("state_dict", "named"),
    [
        (lambda self: {}, "number, _rate"),
        (lambda self: {"count": self.number}, "_rate"),
        (lambda self: {"rate": torch.tensor(self._rate), "number": [self.number]}, None),
    ],
)
def test_a_strategy_that_keeps_what_no_state_has_is_warned_of_once(state_dict, named, caplog):
    trainer(strategy=counting(state_dict), iterations=3).fit()
    assert caplog.text.count("Strategy Counting has changed ") == (named is not None)
    assert named is None or f"has changed {named}, and its state_dict() does not have this" in caplog.text


def test_a_strategy_that_makes_fewer_updates_than_asked_is_warned_of_once(caplog):
    def of_its_own(gan, reals, *, d_steps, g_steps):
        strategies.joint(gan, reals, d_steps=1, g_steps=g_steps)

    trainer(strategy=of_its_own, d_steps=5, iterations=3).fit()
    assert caplog.text.count("Strategy of_its_own made 1 of the 5 updates that d_steps asks for in the first iteration.") == 1
    caplog.clear()
    resting = wrappers.WarmUp(strategies.detach, many=1), wrappers.Pretrain(strategies.detach, g=0, d=1)
    for strategy in (*STRATEGIES.values(), wrappers.WarmUp(strategies.detach, many=7), *resting):
        trainer("minimax", strategy, d_steps=2, g_steps=3, iterations=2).fit()
    assert "updates that" not in caplog.text


def test_a_resumed_run_in_which_a_network_rests_is_not_warned_of(caplog):
    begun, resumed = (trainer(strategy=wrappers.LossChange(strategies.detach), iterations=6) for _ in range(2))
    iterate(begun, 5)
    resumed.load_state_dict(begun.state_dict())
    resumed.fit()
    assert resumed.gan.meter.updates["d"] + resumed.gan.meter.updates["g"] == 7  # both in the first iteration, then one each
    assert "updates that" not in caplog.text


def test_a_trainer_fits_once_and_its_clock_stands_still_afterwards():
    run = trainer()
    summary = run.fit()
    assert run.trained_s == summary["wall_s"] > 0
    with pytest.raises(RuntimeError, match="fits once"):
        run.fit()


@pytest.mark.parametrize(("d_steps", "g_steps"), [(1, 1), (3, 1), (1, 2)])
def test_progress_counts_what_was_done(d_steps, g_steps):
    logger = Rows()
    trainer("softmaxgan", log_every=5, loggers=[logger], d_steps=d_steps, g_steps=g_steps).fit()
    last = logger.rows[-1]
    assert last["progress/d_updates"] == 10 * d_steps
    assert last["progress/g_updates"] == 10 * g_steps
    assert last["progress/real_images"] == 10 * BATCH * (d_steps + g_steps - 1)


def test_watching_does_not_steer(tmp_path):
    quiet = trainer("wgan_gp", log_every=1000, checkpoint_every=1000)
    watched = trainer("wgan_gp", log_every=1, sample_every=1, checkpoint_every=1, loggers=[Rows()], folder=tmp_path)
    quiet.fit()
    watched.fit()
    assert all(torch.equal(a, b) for a, b in zip(state(quiet.gan), state(watched.gan), strict=True))


@pytest.mark.parametrize("wrong", [{"d_steps": 0}, {"g_steps": 1.5}, {"iterations": 0}, {"d_steps": True}])
def test_counts_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} (must be at least 1|needs an integer); got "):
        trainer(**wrong)


def test_a_failing_iteration_closes_the_books_as_failed_and_raises(tmp_path):
    def broken(gan, reals, **steps):
        strategies.detach(gan, reals, **steps)
        if gan.meter.updates["d"] == 3:
            raise RuntimeError("as planned")

    logger = Rows()
    with pytest.raises(RuntimeError, match="as planned"):
        trainer(strategy=broken, log_every=1, loggers=[FolderLogger(tmp_path), logger], folder=tmp_path).fit()
    assert logger.closed == ["failed"]
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["state"], summary["iteration"]) == ("failed", 2)


def test_after_its_minutes_a_run_makes_one_last_iteration_that_is_observed_and_saved(tmp_path, monkeypatch):
    clock = iter(range(10**6))  # every look at the clock is a second later
    monkeypatch.setattr(ganexp.training.trainer.time, "perf_counter", lambda: float(next(clock)))
    logger = Rows()
    run = trainer(log_every=1000, iterations=1000, loggers=[logger], folder=tmp_path, minutes=3)
    summary = run.fit()
    assert summary["state"] == "finished"
    assert 3 < summary["iteration"] < 180
    assert [row["progress/iteration"] for row in logger.rows] == [summary["iteration"]]
    assert summary["notes"][0] == f"Ended by minutes=3 at iteration {summary['iteration']} of 1,000."
    monkeypatch.undo()
    by_iterations = trainer(log_every=1000, iterations=summary["iteration"])
    by_iterations.fit()
    torch.testing.assert_close(state(run.gan), state(by_iterations.gan), rtol=0, atol=0)
    saved = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)
    assert saved["run"]["iteration"] == summary["iteration"]


def test_a_run_that_is_asked_to_stop_leaves_a_grid_of_its_last_samples(tmp_path, monkeypatch):
    run = build(composed(*NARROW, "iterations=10", "sample_every=5", "batch_size=4"), tmp_path)
    monkeypatch.setattr(run, "asked_to_stop", lambda: run.iteration == 7)
    summary = run.fit()
    assert (summary["state"], summary["iteration"]) == ("preempted", 7)
    assert sorted(path.name for path in (tmp_path / "samples").glob("samples_*")) == [
        f"samples_000000{i}.png" for i in (0, 5, 7)
    ]
    assert summary["paths"]["samples"].endswith("samples_0000007.png")


class Slow(Checkpoints):
    """Is interrupted while it writes, as by a second Ctrl-C."""

    def write(self, run, *, best=False):
        raise KeyboardInterrupt


def test_a_second_ctrl_c_during_the_last_checkpoint_closes_the_books_too(tmp_path):
    logger = FolderLogger(tmp_path)
    run = trainer(loggers=[logger])
    run.checkpoints, run.stopping.received = Slow(tmp_path), signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    assert json.loads((tmp_path / "summary.json").read_text())["state"] == "preempted"


def test_phases_of_a_real_iteration_fill_most_of_it_and_never_more():
    run = build(composed(*NARROW, "iterations=10", "log_every=10", "generator.width=16", "batch_size=16"))
    last = run.fit()["last"]
    parts = last["time/data_ms"] + last["time/d_ms"] + last["time/g_ms"]
    assert 0.5 * last["time/iteration_ms"] < parts <= last["time/iteration_ms"]
    assert last["speed/images_per_s"] == pytest.approx(1000 * 16 / last["time/iteration_ms"])


@pytest.mark.gpu
@pytest.mark.parametrize("further", ["cuda_graph=auto", "cuda_graph=false"])
@pytest.mark.parametrize(("strategy", "loss"), each_with_a_usual_one())
def test_the_loop_never_waits_for_the_host(strategy, loss, further, monkeypatch):
    loop_never_waits(monkeypatch, f"strategy={strategy}", f"loss={loss}", *discriminator_for(loss), further)


@pytest.mark.gpu
def test_streamed_data_do_not_keep_it_waiting(monkeypatch):
    loop_never_waits(monkeypatch, "feed=streamed")


def loop_never_waits(monkeypatch, *chosen):
    monkeypatch.setattr(sys.modules[Resident.__module__], "CHUNK", 1)  # so that each batch is gathered by itself
    settings = ["device=cuda", "flip=true", "workers=0", "iterations=20", "average.decay=0.9", "log_every=1"]
    cfg = composed(*NARROW, *settings, *chosen)
    cfg.dataset = composed("dataset=fake", "dataset.n=9").dataset  # an epoch ends every few iterations
    assert_never_waits(build(cfg))
