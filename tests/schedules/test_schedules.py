"""Schedules against closed forms, torch's schedulers in plain loops, and torch's own rule for plateaus."""

from itertools import islice

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, ReduceLROnPlateau

from ganexp import Step, strategies
from ganexp.batch import Batch
from ganexp.optimizers import (
    ComplexMomentum,
    Muon,
    NegativeMomentum,
    NormalizedSGD,
    OptimisticAdam,
    ScheduleFree,
    adam,
    adamw,
    rmsprop,
    sgd,
)
from ganexp.schedules import Cosine, Linear, Stalled
from ganexp.training.cuda_graph import Recorded, reason_against
from tests.tiny import CASES, STRATEGIES, descend, real_batches, state, tiny_gan
from tests.training.tape import Tapes


def moved(schedule, iterations, *, measured=None):
    """Return the factors of the rates that each iteration has, from optimisers of the rates 0.1 and 0.2."""
    optimizers = {name: sgd([torch.nn.Parameter(torch.ones(1))], lr=lr) for name, lr in (("d", 0.1), ("g", 0.2))}
    schedule.begin(optimizers)
    found = []
    for t in range(iterations):
        found.append([optimizers["d"].param_groups[0]["lr"] / 0.1, optimizers["g"].param_groups[0]["lr"] / 0.2])
        if measured is not None:
            schedule.observe(lambda t=t: {"m": torch.tensor(measured[t])})
        schedule.advance()
    return np.array(found).T


def test_linear_in_closed_form():
    expected = np.interp(np.arange(30), [0, 5, 20, 30], [1, 1, 0.1, 0.1])
    for factors in moved(Linear(30, begin=5, end=20, final=0.1), 30):
        np.testing.assert_allclose(factors, expected, rtol=1e-12)


def test_cosine_in_closed_form():
    t = np.arange(5, 30)
    half = 0.2 + 0.8 * (1 + np.cos(np.pi * np.minimum(t - 5, 15) / 15)) / 2
    expected = np.concatenate([[0.2, 0.4, 0.6, 0.8, 1.0], half])
    for factors in moved(Cosine(30, warm_up=5, end=20, final=0.2), 30):
        np.testing.assert_allclose(factors, expected, rtol=1e-12)


@pytest.mark.parametrize("of", ["d", "g"])
def test_one_network_alone(of):
    d, g = moved(Linear(10, of=of), 10)
    still, moving = (g, d) if of == "d" else (d, g)
    np.testing.assert_allclose(still, 1)
    np.testing.assert_allclose(moving, 1 - np.arange(10) / 10, rtol=1e-12)


def test_stalled_is_torchs_rule_on_means_over_windows():
    values = np.random.default_rng(0).normal(size=200).cumsum() * 0.01 + np.linspace(3, 1, 200).clip(2)
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=1.0)
    torchs = ReduceLROnPlateau(optimizer, factor=0.5, patience=2 - 1, threshold=0)
    expected = []
    for window in values.reshape(-1, 5):
        expected += [optimizer.param_groups[0]["lr"]] * 5
        torchs.step(window.mean())
    assert 2 < len(set(expected)) < 15
    for factors in moved(Stalled(200, metric="m", every=5, patience=2), 200, measured=values):
        np.testing.assert_allclose(factors, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_run_is_a_plain_loop_with_torchs_scheduler(name):
    ours, theirs, n = tiny_gan(CASES["nonsaturating"]), tiny_gan(CASES["nonsaturating"]), 12
    step = Step(ours, strategies.detach, schedule=Linear(n, final=0.25) if name == "linear" else Cosine(n, final=0.25))
    for x in islice(real_batches(), n):
        step(iter([x]))
    G, D, softplus = theirs.generator, theirs.discriminator, torch.nn.functional.softplus
    optimizers = theirs.optimizer_d, theirs.optimizer_g
    torchs = [
        LinearLR(one, start_factor=1.0, end_factor=0.25, total_iters=n)
        if name == "linear"
        else CosineAnnealingLR(one, T_max=n, eta_min=0.25 * one.param_groups[0]["lr"])
        for one in optimizers
    ]
    for x in islice(real_batches(), n):
        fake = G(theirs.sample().values)
        descend(theirs.optimizer_d, softplus(-D(x)).mean() + softplus(D(fake.detach())).mean())
        descend(theirs.optimizer_g, softplus(-D(fake)).mean())
        for one in torchs:
            one.step()
    torch.testing.assert_close(state(ours), state(theirs), rtol=1e-11, atol=1e-13)


def stepped(optimizer, rates):
    (p,) = optimizer.param_groups[0]["params"]
    for t, rate in enumerate(rates):
        if rate is not None:
            optimizer.param_groups[0]["lr"] = rate
        p.grad = torch.linspace(-1, 2, 6, dtype=p.dtype).sin().add(t).view(3, 2)
        optimizer.step()
        yield p.detach().clone()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "make",
    [
        adam,
        lambda p, lr: adam(p, lr=lr, fused=False),
        rmsprop,
        sgd,
        OptimisticAdam,
        NegativeMomentum,
        NormalizedSGD,
        Muon,
        ComplexMomentum,
        ScheduleFree,
        adamw,
        torch.optim.AdamW,
    ],
)
def test_every_optimizer_honours_the_rates(make, dtype):
    def new():
        return make([torch.nn.Parameter(torch.ones(3, 2, dtype=dtype))], lr=0.1)

    by_hand, scheduled, constant = new(), new(), new()
    schedule = Cosine(8, warm_up=2)
    schedule.begin({"d": scheduled, "g": sgd([torch.nn.Parameter(torch.ones(1))])})
    expected = [*stepped(by_hand, [0.1 * schedule.factor(t) for t in range(8)])]
    for value in stepped(scheduled, [None] * 8):
        torch.testing.assert_close(value, expected.pop(0), rtol=1e-12 if dtype == torch.float64 else 1e-5, atol=0)
        schedule.advance()
    assert not torch.allclose(value, [*stepped(constant, [None] * 8)][-1])


@pytest.mark.parametrize(("strategy", "loss"), [("detach", "nonsaturating"), ("joint", "began"), ("extragradient", "hinge")])
def test_recorded_iterations_are_eager_ones(strategy, loss):
    ends = []
    for recorded in (False, True):
        gan = tiny_gan(CASES[loss], fused=True)
        gan._g.optimizer = NegativeMomentum(gan.generator.parameters(), lr=0.05)
        schedule = Stalled(40, every=1, patience=1) if loss == "began" else Cosine(12, warm_up=3)
        step = Step(gan, STRATEGIES[strategy], schedule=schedule)
        step = Recorded(step, Tapes) if recorded else step
        reals = map(Batch, real_batches())
        rates = [(step(reals), step.schedule.rates()["g"])[1] for _ in range(12)]
        ends.append((rates, state(gan)))
        assert not recorded or step.recordings
    assert ends[0][0] == ends[1][0]
    assert len(set(ends[0][0])) > 1
    assert all(torch.equal(a, b) for a, b in zip(ends[0][1], ends[1][1], strict=True))


def test_an_optimizer_that_reads_its_rate_on_the_host_is_not_recorded():
    gan = tiny_gan(CASES["hinge"], fused=True)
    assert reason_against(Step(gan, strategies.detach)) == ""
    scheduled = Step(gan, strategies.detach, schedule=Linear(10))
    assert reason_against(scheduled) == "SGD reads a scheduled learning rate on the host"
    assert Step(gan, strategies.detach, schedule=Linear(10, of="d")).schedule.on_host == ()


def test_no_schedule_touches_nothing():
    gan = tiny_gan(CASES["hinge"])
    before = [{**one.param_groups[0]} for one in (gan.optimizer_d, gan.optimizer_g)]
    step = Step(gan, strategies.detach)
    step(real_batches())
    assert [one.param_groups[0] for one in (gan.optimizer_d, gan.optimizer_g)] == before
    assert (step.schedule.rates(), step.schedule.state_dict()) == ({}, {})


def test_a_measure_that_is_not_there_is_named():
    step = Step(tiny_gan(CASES["hinge"]), strategies.detach, schedule=Stalled(100, every=5))
    with pytest.raises(ValueError, match="began/convergence is not measured by this loss, which measures nothing"):
        step(real_batches())
