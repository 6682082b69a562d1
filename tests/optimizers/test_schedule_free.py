"""Schedule-free Adam, against its recurrence in x, y and z in NumPy and its authors' package; and where its average is used."""

import copy
from functools import partial

import numpy as np
import pytest
import torch

from ganexp import Step, build, load, load_discriminator, strategies, wrappers
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.optimizers import ScheduleFree, adam
from ganexp.penalties import R1, Sum, WeightClipping
from ganexp.training import EMA
from tests.composing import composed
from tests.small_runs import SMALL, assert_resumes
from tests.tiny import CASES, iterate, tiny_gan, tiny_trainer
from tests.training.tape import Tapes

SHAPES = (3, 2), (4,)


def drawn(steps):
    rng = np.random.default_rng(0)
    return [[rng.normal(size=shape) for shape in SHAPES] for _ in range(steps)]


def moved(make, steps, rates=None):
    """Return the parameters after steps along given gradients, and their optimiser."""
    parameters = [torch.nn.Parameter(torch.ones(shape, dtype=torch.float64)) for shape in SHAPES]
    optimizer = make(parameters)
    for t, gradients in enumerate(steps):
        if rates:
            optimizer.param_groups[0]["lr"] = rates[t]
        for p, g in zip(parameters, gradients, strict=True):
            p.grad = torch.from_numpy(g.copy())
        optimizer.step()
    return parameters, optimizer


@pytest.mark.parametrize("rates", [None, [0.1, 0.3, 0.2, 0.05] * 5], ids=["one rate", "rates"])
def test_it_follows_the_papers_three_sequences(rates):
    """By algorithm 1 with x explicit, which the optimiser never stores."""
    settings = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.3, "warm_up": 3}
    parameters, optimizer = moved(lambda ps: ScheduleFree(ps, **settings), drawn(20), rates)
    for i, (p, average) in enumerate(zip(parameters, optimizer.averaged(parameters), strict=True)):
        x = z = y = np.ones(SHAPES[i])
        v, total, largest = 0.0, 0.0, 0.0
        for t, gradients in enumerate(drawn(20), 1):
            rate = (rates[t - 1] if rates else 0.1) * min(1, t / 3)
            v = 0.9 * v + 0.1 * gradients[i] ** 2
            z = z - rate * (gradients[i] / (np.sqrt(v / (1 - 0.9**t)) + 1e-6) + 0.3 * y)
            largest = max(largest, rate)
            total += largest**2
            x = (1 - largest**2 / total) * x + largest**2 / total * z
            y = 0.2 * z + 0.8 * x
        np.testing.assert_allclose(p.detach(), y, rtol=1e-11)
        np.testing.assert_allclose(average, x, rtol=1e-10)


def test_it_is_the_authors():
    theirs = pytest.importorskip("schedulefree").AdamWScheduleFree
    settings = {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.3}

    def in_training(ps):
        made = theirs(ps, **settings, warmup_steps=4)
        made.train()
        return made

    ours, optimizer = moved(lambda ps: ScheduleFree(ps, **settings, warm_up=4), drawn(20))
    others, other = moved(in_training, drawn(20))
    torch.testing.assert_close(ours, others, rtol=1e-11, atol=0)
    other.eval()
    torch.testing.assert_close(optimizer.averaged(ours), [p.detach() for p in others], rtol=1e-10, atol=0)


def test_a_parameter_begins_its_average_when_it_is_first_trained():
    ahead, late = (torch.nn.Parameter(torch.ones(1, dtype=torch.float64)) for _ in range(2))
    optimizer = ScheduleFree([ahead, late], lr=0.1)
    assert optimizer.averaged([late])[0].item() == 1
    for _ in range(3):
        ahead.grad = torch.ones(1, dtype=torch.float64)
        optimizer.step()
    late.grad = torch.ones(1, dtype=torch.float64)
    ahead.grad = None
    optimizer.step()
    assert optimizer.averaged([late])[0].item() == pytest.approx(0.9)  # after one step, x = z


def averaging_gan(make_g=ScheduleFree, make_d=ScheduleFree, **settings):
    gan = tiny_gan(CASES["nonsaturating"], **settings)
    gan._g.optimizer, gan._d.optimizer = (
        make_g(gan.generator.parameters(), lr=0.01),
        make_d(gan.discriminator.parameters(), lr=0.02),
    )
    return gan


def test_samples_come_from_its_average_and_training_does_not():
    made = tiny_trainer(gan=averaging_gan(make_d=adam))
    iterate(made, 5)
    gan, x = made.gan, made.gan.optimizer_g.averaged([*made.gan.generator.parameters()])
    for seen in (made.step.average.generator, made.step.average.networks()["generator"]):
        assert all(map(torch.equal, seen.parameters(), x))
    assert not any(map(torch.equal, gan.generator.parameters(), x))
    assert made.step.average.networks().keys() == {"generator"}
    only_d = Step(averaging_gan(make_g=adam), strategies.detach)
    assert only_d.average.generator is only_d.gan.generator
    assert only_d.average.networks().keys() == {"discriminator"}
    ema = EMA(gan.generator)
    assert Step(gan, strategies.detach, average=ema).average is ema


@pytest.mark.parametrize(
    ("strategy", "penalty"),
    [
        (strategies.Extragradient(), None),
        (strategies.PastExtragradient(), None),
        (wrappers.TopK(wrappers.Lookahead(strategies.detach)), None),
        (wrappers.Anchoring(strategies.joint), None),
        (strategies.detach, Sum(parts={"r1": R1(), "weight_clipping": WeightClipping()})),
    ],
)
def test_what_moves_weights_itself_is_refused(strategy, penalty):
    gan = averaging_gan()
    gan.penalty = penalty or gan.penalty
    with pytest.raises(ValueError, match="moves weights itself"):
        Step(gan, strategy)


@pytest.mark.parametrize(
    ("chosen", "key"),
    [
        ("strategy=extragradient", "strategy"),
        ("strategy=past_extragradient", "strategy"),
        ("wrapper=[topk,lookahead]", "wrapper.lookahead"),
        ("wrapper=[anchoring]", "wrapper.anchoring"),
        ("penalty=weight_clipping", "penalty.weight_clipping"),
        ("moving={optimizer.d.betas.0:0.5}", "moving.optimizer.d.betas.0"),
    ],
)
def test_so_it_is_in_a_configuration(chosen, key):
    with pytest.raises(UserError, match=rf"^{key}\b"):
        check(composed(*SMALL, "optimizer=schedule_free", "average=none", chosen))
    check(composed(*SMALL, chosen.replace("betas.0", "betas.1")))


def test_another_average_of_it_is_warned_of():
    said = check(composed(*SMALL, "optimizer=schedule_free")).warnings
    assert [one.partition(" ")[0] for one in said] == ["average=ema"]
    assert "average=none" in said[0]
    assert check(composed(*SMALL, "optimizer=schedule_free", "average=none")).warnings == []


def test_what_is_loaded_is_the_average(tmp_path):
    made = build(composed(*SMALL, "optimizer=schedule_free", "average=none", "iterations=6"), tmp_path)
    made.fit()
    gan = made.gan
    for loaded, network, optimizer in (
        (load(tmp_path), gan.generator, gan.optimizer_g),
        (load_discriminator(tmp_path), gan.discriminator, gan.optimizer_d),
    ):
        assert all(map(torch.equal, loaded.parameters(), optimizer.averaged([*network.parameters()])))


def test_a_killed_run_goes_on_with_its_counts(tmp_path):
    settings = [*SMALL, "optimizer=schedule_free", "average=none", "optimizer.warm_up=9", "schedule=linear"]
    assert_resumes(tmp_path, settings, 11, stop_after=5)


def test_a_recorded_run_is_the_eager_one_and_goes_on_to_the_last_bit():
    ends = []
    for recording, stop in ((None, 20), (Tapes, 20), (Tapes, 9)):
        make = partial(tiny_trainer, recording=recording, reals=None)
        made = make(gan=averaging_gan(fused=True))
        iterate(made, stop)
        if stop < 20:
            state, made = copy.deepcopy(made.state_dict()), make(gan=averaging_gan(fused=True))
            made.load_state_dict(state)
            iterate(made, 20 - stop)
        assert recording is None or made.step.recordings
        networks = (made.gan.generator, *made.step.average.networks().values())
        ends.append([p.detach().clone() for network in networks for p in network.parameters()])
    assert all(map(torch.equal, ends[0], ends[1]))
    assert all(map(torch.equal, ends[0], ends[2]))
