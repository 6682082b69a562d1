"""Recorded iterations are eager iterations: on a CPU by a tape of operations, on a GPU by the graph itself."""

import itertools
import logging

import pytest
import torch

from ganexp import build, strategies, wrappers
from ganexp.augmentations import DiffAugment
from ganexp.penalties import BalancedConsistency, Sum
from ganexp.training import Step
from ganexp.training.cuda_graph import Recorded, reason_against
from tests.composing import composed, discriminator_for, each_with_a_usual_one, every_strategy, suited
from tests.small_runs import NARROW, Rows
from tests.tiny import CASES, KINDS, STRATEGIES, iterate, real_batches, state, tiny_gan, tiny_trainer
from tests.training.tape import Tapes

COUNTED = ("loss", "score", "grad_norm", "began", "softmaxgan", "progress")


def small(loss, strategy=strategies.detach, *, recorded=True, wrap=lambda discriminator: discriminator, **settings):
    """Return a trainer whose optimisers keep everything in tensors, as they do on a GPU; a tape records its iterations."""
    gan = tiny_gan(CASES[loss], fused=True, wrap=wrap)
    return tiny_trainer(strategy=strategy, gan=gan, recording=Tapes if recorded else None, **settings)


def trained(loss, strategy, *, recorded, **kwargs):
    """Train a tiny GAN and return its trainer and its rows, without the times."""
    logger = Rows()
    settings = {"iterations": 8, "log_every": 3, "loggers": [logger], "on_divergence": "warn"}
    trainer = small(loss, strategy, recorded=recorded, **settings, **kwargs)
    trainer.fit()
    rows = [{key: value for key, value in row.items() if key.startswith(COUNTED)} for row in logger.rows]
    for row in rows:
        del row["progress/wall_s"]
    return trainer, rows


def assert_recorded_as_eager(strategy, loss):
    runs = [trained(loss, STRATEGIES[strategy], recorded=r, d_steps=2, g_steps=3) for r in (False, True)]
    (eager, eager_rows), (recorded, recorded_rows) = runs
    assert recorded_rows == eager_rows
    assert all(torch.equal(a, b) for a, b in zip(state(eager.gan), state(recorded.gan), strict=True))
    assert torch.equal(eager.gan.meter.last_fake, recorded.gan.meter.last_fake)
    assert torch.equal(eager.gan.prior.rng.get_state(), recorded.gan.prior.rng.get_state())
    assert recorded.step.recordings


@pytest.mark.parametrize("strategy", every_strategy())
def test_a_recorded_run_is_the_eager_one_to_the_last_bit(strategy):
    assert_recorded_as_eager(strategy, suited(strategy, "wgan_gp"))  # whose penalty draws, and is differentiated twice


@pytest.mark.parametrize("strategy", ["detach", "one_stage"])
@pytest.mark.parametrize("loss", [kind for kind in KINDS if kind != "wgan_gp"])
def test_it_is_with_other_losses(strategy, loss):
    assert_recorded_as_eager(strategy, loss)


@pytest.mark.slow
@pytest.mark.parametrize("through", [False, True])
def test_a_step_of_latents_is_recorded_too(through):
    runs = [trained("hinge", wrappers.LatentStep(strategies.detach, through=through), recorded=r)[0] for r in (False, True)]
    assert all(torch.equal(a, b) for a, b in zip(*(state(trainer.gan) for trainer in runs), strict=True))
    assert runs[1].step.recordings


def test_what_watches_sees_the_recorded_run_too(tmp_path):
    trainer, _ = trained("began", strategies.joint, recorded=True, folder=tmp_path, checkpoint_every=4)
    loaded = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)
    run = loaded["run"]
    assert run["gan"]["meter"]["updates"] == {"d": 8, "g": 8}
    assert run["reals"]["batches"] == 8
    assert torch.equal(run["gan"]["loss"]["k_t"], trainer.gan.loss.k_t)


def test_times_come_from_the_last_eager_iteration_and_the_replays(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: next(clock) * 0.001)
    logger = Rows()
    small("lsgan", iterations=20, log_every=20, loggers=[logger]).fit()
    (row,) = logger.rows
    # One look at the clock is a millisecond: an eager iteration has six phases of one each, for data, twice for D and three
    # times for G, and the time between them; a replay has its data only, between its own two looks.
    assert row["time/iteration_ms"] == pytest.approx(3)
    assert row["time/data_ms"] == pytest.approx(1)
    eager_ms = 2 * 6 + 1
    assert row["time/d_ms"] == pytest.approx(3 * 2 / eager_ms)
    assert row["time/g_ms"] == pytest.approx(3 * 3 / eager_ms)


@pytest.mark.parametrize("log_every", [1, 2, 4, 5])
def test_rows_that_fall_into_the_recording_have_every_time(log_every):
    logger = Rows()
    small("lsgan", iterations=10, log_every=log_every, loggers=[logger]).fit()
    assert len(logger.rows) == -(-10 // log_every)
    for row in logger.rows:
        assert 0 < row["time/d_ms"] < row["time/iteration_ms"]
        assert 0 < row["time/g_ms"] < row["time/iteration_ms"]
        assert row["speed/images_per_s"] > 0


class Peeking(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        scores = self.inner(x)
        assert scores.mean().item() < 1e9
        return scores


def test_what_waits_for_the_device_is_said_and_runs_eagerly(caplog):
    eager, eager_rows = trained("hinge", strategies.detach, recorded=False)
    logger = Rows()
    trainer = small("hinge", wrap=Peeking, iterations=8, log_every=3, loggers=[logger])
    with caplog.at_level(logging.WARNING):
        trainer.fit()
    assert "cannot be recorded (operation not permitted when stream is capturing), so all are run eagerly" in caplog.text
    assert all(torch.equal(a, b) for a, b in zip(state(eager.gan), state(trainer.gan), strict=True))
    assert [row["loss/d"] for row in logger.rows] == [row["loss/d"] for row in eager_rows]
    assert all(row["time/d_ms"] > 0 for row in logger.rows)


def test_a_varying_number_of_batches_is_said():
    draws = itertools.cycle([1, 1, 2])

    def greedy(gan, reals, *, d_steps, g_steps):
        for _ in range(next(draws)):
            strategies.detach(gan, reals, d_steps=d_steps, g_steps=g_steps)

    trainer = small("hinge", greedy, recorded=False, iterations=9, log_every=0)
    trainer.step = Recorded(trainer.step, Tapes, warm_up=2)
    trainer.fit()
    assert trainer.step.recorder is None
    assert trainer.gan.meter.updates["d"] == trainer.reals.batches


@pytest.mark.parametrize(("width", "sentence"), [(3, r"a batch of shape \(6, 3\) came"), (2, "reals ended after 8 batches")])
def test_a_batch_of_another_shape_is_refused_and_an_end_is_an_end(width, sentence):
    batches = [*itertools.islice(real_batches(), 7), torch.zeros(6, width, dtype=torch.float64)]
    trainer = small("hinge", reals=iter(batches), iterations=9)
    iterate(trainer, 7 if width == 3 else 8)
    with pytest.raises(ValueError, match=sentence):
        iterate(trainer)


def test_strategies_that_remember_are_not_recorded():
    gan = tiny_gan(CASES["hinge"], fused=True)
    within = wrappers.LatentStep(strategies.detach)
    assert reason_against(Step(gan, within)) == ""
    assert reason_against(Step(gan, wrappers.Skip(within))) == "Skip keeps count of iterations"
    around = wrappers.LatentStep(wrappers.Lookahead(wrappers.WarmUp(wrappers.Balanced(strategies.detach))))
    assert reason_against(Step(gan, around)) == "Balanced keeps count of iterations"
    assert all(reason_against(Step(gan, strategy)) == "" for strategy in STRATEGIES.values())
    gan._d.optimizer = torch.optim.Adagrad(gan.discriminator.parameters(), lr_decay=0.1)
    assert reason_against(Step(gan, strategies.detach)) == "Adagrad may count its steps on the host"
    with pytest.raises(ValueError, match="cannot be recorded: Skip keeps count"):
        small("hinge", wrappers.Skip(strategies.detach))


def test_gradients_of_gathered_pixels_are_recorded_unless_they_must_be_deterministic():
    gathering = ("penalty", Sum(parts={"bcr": BalancedConsistency()}), "Sum"), ("augment", DiffAugment(), "DiffAugment")
    for kind, part, name in gathering:
        step = Step(tiny_gan(CASES["hinge"], fused=True), strategies.detach)
        setattr(step.gan, kind, part)
        assert reason_against(step) == ""
        torch.use_deterministic_algorithms(True)
        try:
            assert reason_against(step) == f"the gradient of {name} waits for the host with deterministic=true"
        finally:
            torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
@pytest.mark.parametrize(("strategy", "loss"), each_with_a_usual_one())
def test_a_graph_on_a_gpu_is_the_eager_run_to_the_last_bit(strategy, loss):
    weights = []
    for graph in ("false", "true"):
        chosen = [f"strategy={strategy}", f"loss={loss}", *discriminator_for(loss), f"cuda_graph={graph}"]
        trainer = build(composed(*NARROW, "device=cuda", "deterministic=true", *chosen, "iterations=20", "average.decay=0.9"))
        trainer.fit()
        assert isinstance(trainer.step, Recorded) == (graph == "true")
        assert graph == "false" or trainer.step.recordings
        weights.append([*trainer.gan.generator.state_dict().values(), *trainer.step.average.generator.state_dict().values()])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
