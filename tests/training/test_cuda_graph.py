"""Recorded iterations are eager iterations: on a CPU by a tape of operations, on a GPU by the graph itself."""

import itertools
import logging

import pytest
import torch

from ganexp import Trainer, build, strategies
from ganexp.training.cuda_graph import CudaGraph, reason_against
from tests.composing import composed, options
from tests.tiny import CASES, STRATEGIES, real_batches, state, tiny_gan
from tests.training.tape import Tape
from tests.training.test_trainer import SMALL, Rows

COUNTED = ("loss", "score", "grad_norm", "began", "softmaxgan", "progress")


def small_gan(loss):
    """A tiny GAN whose optimisers keep everything in tensors, as they do on a GPU."""
    gan = tiny_gan(CASES[loss])
    gan.optimizer_d = torch.optim.Adam(gan.discriminator.parameters(), lr=0.02, betas=(0.5, 0.9), fused=True)
    return gan


def trained(loss, strategy, *, recorded, iterations=11, **kwargs):
    """Train a tiny GAN and return its trainer and its rows, without the times."""
    book = Rows()
    made = Trainer(
        small_gan(loss),
        real_batches(),
        strategy,
        iterations=iterations,
        log_every=3,
        sample_every=0,
        books=[book],
        on_divergence="warn",
        **kwargs,
    )
    if recorded:
        made._run = made._graph(Tape())
    made.fit()
    rows = [{key: value for key, value in row.items() if key.startswith(COUNTED)} for row in book.rows]
    for row in rows:
        del row["progress/wall_s"]
    return made, rows


@pytest.mark.parametrize("steps", [pytest.param((1, 1), marks=pytest.mark.slow), (2, 3)], ids=str)
@pytest.mark.parametrize("loss", CASES)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_recorded_run_is_the_eager_one_to_the_last_bit(strategy, loss, steps):
    d_steps, g_steps = steps
    runs = [trained(loss, STRATEGIES[strategy], recorded=r, d_steps=d_steps, g_steps=g_steps) for r in (False, True)]
    (eager, eager_rows), (recorded, recorded_rows) = runs
    assert recorded_rows == eager_rows
    assert all(torch.equal(a, b) for a, b in zip(state(eager.gan), state(recorded.gan), strict=True))
    assert torch.equal(eager.gan.last_fake, recorded.gan.last_fake)
    assert torch.equal(eager.gan.prior.generator.get_state(), recorded.gan.prior.generator.get_state())
    assert len(recorded._run.recording.operations) > 50


@pytest.mark.parametrize("optimizer", options("optimizer"))
def test_whole_runs_with_each_optimizer_average_and_network(optimizer):
    weights = []
    for recorded in (False, True):
        cfg = composed(*SMALL, f"optimizer={optimizer}", "iterations=8", "ema=0.9", "discriminator.spectral_norm=true")
        made = build(cfg)
        if recorded:
            made._run = made._graph(Tape())
        made.fit()
        weights.append([*made.gan.generator.state_dict().values(), *made.ema.average.state_dict().values()])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_what_watches_sees_the_recorded_run_too(tmp_path):
    made, _ = trained("began", strategies.joint, recorded=True, folder=tmp_path, checkpoint_every=4, ema=None)
    loaded = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)
    assert loaded["updates"] == {"d": 11, "g": 11}
    assert loaded["real_batches"] == 11
    assert torch.equal(loaded["loss"]["k_t"], made.gan.loss.k_t)


def test_times_come_from_the_last_eager_iteration_and_the_replays(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: next(clock) * 0.001)
    book = Rows()
    made = Trainer(
        small_gan("lsgan"), real_batches(), strategies.detach, iterations=20, log_every=20, sample_every=0, books=[book]
    )
    made._run = made._graph(Tape())
    made.fit()
    (row,) = book.rows
    # One look at the clock is a millisecond: an eager iteration has six phases of one each, for data, twice for D and three
    # times for G, and the time between them; a replay has its data only, between its own two looks.
    assert row["time/iteration_ms"] == pytest.approx(3)
    assert row["time/data_ms"] == pytest.approx(1)
    eager_ms = 2 * 6 + 1
    assert row["time/d_ms"] == pytest.approx(3 * 2 / eager_ms)
    assert row["time/g_ms"] == pytest.approx(3 * 3 / eager_ms)


@pytest.mark.parametrize("log_every", [1, 2, 4, 5])
def test_rows_that_fall_into_the_recording_have_every_time(log_every):
    book = Rows()
    settings = {"iterations": 10, "log_every": log_every, "sample_every": 0, "books": [book]}
    made = Trainer(small_gan("lsgan"), real_batches(), strategies.detach, **settings)
    made._run = made._graph(Tape())
    made.fit()
    assert len(book.rows) == -(-10 // log_every)
    for row in book.rows:
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
    gan = small_gan("hinge")
    gan.discriminator = Peeking(gan.discriminator)
    book = Rows()
    made = Trainer(gan, real_batches(), strategies.detach, iterations=11, log_every=3, sample_every=0, books=[book])
    made._run = made._graph(Tape())
    with caplog.at_level(logging.WARNING):
        made.fit()
    assert "cannot be recorded (operation not permitted when stream is capturing), so all are run eagerly" in caplog.text
    assert all(torch.equal(a, b) for a, b in zip(state(eager.gan), state(gan), strict=True))
    assert [row["loss/d"] for row in book.rows] == [row["loss/d"] for row in eager_rows]
    assert all(row["time/d_ms"] > 0 for row in book.rows)


def test_a_varying_number_of_batches_is_said():
    draws = itertools.cycle([1, 1, 2])

    def greedy(gan, reals, *, d_steps, g_steps):
        for _ in range(next(draws)):
            strategies.detach(gan, reals, d_steps=d_steps, g_steps=g_steps)

    made = Trainer(small_gan("hinge"), real_batches(), greedy, iterations=9, log_every=0, sample_every=0)
    made._run = CudaGraph(made._iteration, counters=[made.gan.updates], optimizers=[], recording=Tape(), warm_up=2)
    made.fit()
    assert type(made._run) is not CudaGraph
    assert made.gan.d_updates == made.reals.batches


@pytest.mark.parametrize(("width", "sentence"), [(3, r"a batch of shape \(6, 3\) came"), (2, "reals ended after 8 batches")])
def test_a_batch_of_another_shape_is_refused_and_an_end_is_an_end(width, sentence):
    batches = [*itertools.islice(real_batches(), 7), torch.zeros(6, width, dtype=torch.float64)]
    made = Trainer(small_gan("hinge"), iter(batches), strategies.detach, iterations=9, log_every=0, sample_every=0)
    made._run = made._graph(Tape())
    for _ in range(7 if width == 3 else 8):
        made.iterate()
    with pytest.raises(ValueError, match=sentence):
        made.iterate()


def test_without_a_gpu_a_trainer_refuses_to_record():
    with pytest.raises(ValueError, match="cuda_graph must be False: there is no GPU"):
        Trainer(small_gan("hinge"), real_batches(), strategies.detach, iterations=1, cuda_graph=True)


def test_strategies_that_remember_are_not_recorded():
    assert reason_against(strategies.Lookahead(strategies.detach, every=2)) == "Lookahead keeps count of iterations"
    assert all(reason_against(strategy) == "" for strategy in STRATEGIES.values())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("loss", options("loss"))
@pytest.mark.parametrize("strategy", options("strategy"))
def test_a_graph_on_a_gpu_is_the_eager_run_to_the_last_bit(strategy, loss):
    weights = []
    for graph in ("false", "true"):
        cfg = composed(
            *SMALL, "device=cuda", f"strategy={strategy}", f"loss={loss}", "iterations=20", "deterministic=true", "ema=0.9"
        )
        cfg.cuda_graph = graph == "true"
        if loss == "began":
            cfg.discriminator = composed("discriminator=began", "discriminator.width=4").discriminator
        made = build(cfg)
        made.fit()
        assert made.cuda_graph == (graph == "true")
        weights.append([*made.gan.generator.state_dict().values(), *made.ema.average.state_dict().values()])
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))
