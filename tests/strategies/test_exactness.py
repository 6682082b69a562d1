"""The equivalences between strategies, in float64, for every loss and several step counts."""

import itertools

import pytest
import torch

from ganexp import strategies
from ganexp.strategies.steps import g_step
from measuring.tracing import TracingGAN
from tests.composing import every_strategy, games, suited
from tests.tiny import CASES, KINDS, STRATEGIES, TWICE, real_batches, state, tiny_gan, train

STEPS = [(2, 1), (1, 2), (3, 2)]
each_kind = pytest.mark.parametrize("loss", KINDS)
every_loss = pytest.mark.parametrize(
    ("loss", "d_steps", "g_steps"), [*((loss, 3, 2) for loss in CASES), ("hinge", 1, 1), ("hinge", 1, 3)]
)


def trained(strategy, loss, d_steps, g_steps, *, redundant_gradients=False):
    gan = tiny_gan(CASES[loss], redundant_gradients=redundant_gradients)
    start, end = state(gan), train(gan, strategy, d_steps=d_steps, g_steps=g_steps)
    assert any(not torch.equal(a, b) for a, b in zip(start, end, strict=True))
    return end


def assert_equal(first, second):
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


def assert_close(first, second):
    torch.testing.assert_close(first, second, rtol=1e-12, atol=1e-13)


@every_loss
def test_detach_retain_graph_and_reuse_z_are_one_algorithm(loss, d_steps, g_steps):
    detach = trained(strategies.detach, loss, d_steps, g_steps)
    assert_equal(detach, trained(strategies.retain_graph, loss, d_steps, g_steps))
    assert_close(detach, trained(strategies.reuse_z, loss, d_steps, g_steps))


@every_loss
def test_g_first_is_joint_after_its_further_generator_steps(loss, d_steps, g_steps):
    def further_steps_then_joint(gan, reals, *, d_steps, g_steps):
        for _ in range(g_steps - 1):
            g_step(gan, reals)
        strategies.joint(gan, reals, d_steps=d_steps, g_steps=1)

    assert_close(trained(strategies.g_first, loss, d_steps, g_steps), trained(further_steps_then_joint, loss, d_steps, g_steps))


@each_kind
@pytest.mark.parametrize("strategy", every_strategy(but=TWICE))  # theirs are joint's
def test_redundant_gradients_change_nothing(strategy, loss):
    loss = suited(strategy, loss)
    lean = trained(STRATEGIES[strategy], loss, 3, 2)
    assert_close(lean, trained(STRATEGIES[strategy], loss, 3, 2, redundant_gradients=True))


@each_kind
def test_a_zero_coefficient_is_joint(loss):
    zero = [strategies.Consensus(gamma=0), strategies.Symplectic(strength=0), strategies.Symplectic(strength=0, align=False)]
    zero += [strategies.Competitive(rate=0)] if suited("competitive", loss) == loss else []
    joint = trained(strategies.joint, loss, 3, 2)
    for strategy in zero:
        assert_equal(joint, trained(strategy, loss, 3, 2))


@pytest.mark.parametrize(("loss", "redundant_gradients"), [("hinge", False), ("wgan_gp", True), ("softmaxgan", True)])
@pytest.mark.parametrize("strategy", every_strategy())
def test_gradients_stay_where_they_belong_and_none_is_left_behind(strategy, loss, redundant_gradients):
    case, reals = CASES[suited(strategy, loss)], real_batches()
    gan = tiny_gan(case, gan_class=TracingGAN, redundant_gradients=redundant_gradients)
    moved = []
    for network, optimizer, other in (
        (gan.generator, gan.optimizer_g, gan.discriminator),
        (gan.discriminator, gan.optimizer_d, gan.generator),
    ):

        def watch(*_, network=network, other=other):
            moved.append(network)
            assert all(p.grad is not None for p in network.parameters())
            assert all(p.grad is None for p in other.parameters())

        optimizer.register_step_pre_hook(watch)
    STRATEGIES[strategy](gan, reals, d_steps=2, g_steps=2)
    assert len(moved) == 4 + 2 * gan.trace.count("(DG+)")
    assert gan.meter.updates == {"d": 2, "g": 2}
    assert all(p.grad is None for net in (gan.generator, gan.discriminator) for p in net.parameters())


TRACES = {
    # strategy: traces for (d_steps, g_steps) = (1, 1), (2, 1), (1, 2); [r] only where the loss needs it
    "resample": ("z G r f D+ z G [r] f G+", "z G r f D+ z G r f D+ z G [r] f G+", "z G r f D+ z G [r] f G+ z G [r] f G+"),
    "reuse_z": ("z G r f D+ G [r] f G+", "z G r f D+ z G r f D+ G [r] f G+", "z G r f D+ G [r] f G+ z G [r] f G+"),
    "detach": ("z G r f D+ [r] f G+", "z G r f D+ z G r f D+ [r] f G+", "z G r f D+ [r] f G+ z G [r] f G+"),
    "retain_graph": ("z G r f D+ [r] f G+", "z G r f D+ z G r f D+ [r] f G+", "z G r f D+ [r] f G+ z G [r] f G+"),
    "g_first": ("z G [r] f G+ r f D+", "z G [r] f G+ r f D+ z G r f D+", "z G [r] f G+ z G [r] f G+ r f D+"),
    "g_first_resample": (
        "z G [r] f G+ z G r f D+",
        "z G [r] f G+ z G r f D+ z G r f D+",
        "z G [r] f G+ z G [r] f G+ z G r f D+",
    ),
    "g_first_reuse_z": (
        "z G [r] f G+ G r f D+",
        "z G [r] f G+ G r f D+ z G r f D+",
        "z G [r] f G+ z G [r] f G+ G r f D+",
    ),
    # of those that differentiate both gradients, only the steps of both networks do; the first iteration of
    # past_extragradient has no past to look ahead along
    **dict.fromkeys(
        ("joint", "one_stage", "past_extragradient", *TWICE),
        ("z G r f DG+", "z G r f DG+ z G r f D+", "z G r f DG+ z G [r] f G+"),
    ),
    "extragradient": (
        "z G r f (DG+) z G r f DG+",
        "z G r f (DG+) z G r f DG+ z G r f D+",
        "z G r f (DG+) z G r f DG+ z G [r] f G+",
    ),
    # D and G are elsewhere for the second stage
    "runge_kutta": ("z G r f G r f DG+", "z G r f G r f DG+ z G r f D+", "z G r f G r f DG+ z G [r] f G+"),
    # D is shown fakes of the G that is ahead, and G moves from where it is
    "alex_gda": ("z G r f D+ G [r] f G+", "z G r f D+ G [r] f G+ z G r f D+", "z G r f D+ G [r] f G+ z G [r] f G+"),
    # D's unrolled steps score with other weights, not with D itself
    "unrolled": ("z G r f DG+", "z G r f DG+ z G r f D+", "z G r f DG+ z G G+"),
}


@pytest.mark.parametrize("loss", ["minimax", "softmaxgan"])
@pytest.mark.parametrize("strategy", TRACES)
def test_traces(strategy, loss):
    for (d_steps, g_steps), expected in zip([(1, 1), (2, 1), (1, 2)], TRACES[strategy], strict=True):
        gan = tiny_gan(CASES[suited(strategy, loss)], gan_class=TracingGAN)
        STRATEGIES[strategy](gan, real_batches(), d_steps=d_steps, g_steps=g_steps)
        wanted = expected.replace("[r]", "r") if gan.loss.g_needs_real else expected.replace("[r] ", "")
        assert " ".join(gan.trace) == wanted


@pytest.mark.parametrize("strategy", TRACES)
def test_real_batches_are_drawn_only_for_updates_that_look_at_them(strategy):
    def drawn(loss, d_steps, g_steps):
        count, reals = itertools.count(), real_batches()
        counted = (batch for batch in reals if next(count) >= 0)
        STRATEGIES[strategy](tiny_gan(CASES[suited(strategy, loss)]), counted, d_steps=d_steps, g_steps=g_steps)
        return next(count)

    for d_steps, g_steps in STEPS:
        both = min(d_steps, g_steps)
        further = {"extragradient": both, "unrolled": g_steps - both}.get(strategy, 0)
        assert drawn("nonsaturating", d_steps, g_steps) == d_steps + further
        if strategy == "competitive":
            continue  # softmaxgan is not zero-sum
        shared = both if strategy in ("joint", "one_stage", "extragradient", "unrolled", *games()) else 1
        further = both if strategy == "extragradient" else 0
        assert drawn("softmaxgan", d_steps, g_steps) == d_steps + g_steps - shared + further
