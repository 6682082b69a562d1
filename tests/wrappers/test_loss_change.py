"""One network at a time, by the change of its loss: against a loop by hand, and around and inside other wrappers."""

import pytest
import torch

from ganexp.strategies import detach, resample
from ganexp.streams import stream
from ganexp.wrappers import Lookahead, LossChange, Replay, TopK
from ganexp.wrappers.loss_change import d_should_move
from tests.composing import suited
from tests.tiny import BATCH, CASES, LATENT, STRATEGIES, descend, real_batches, state, tiny_gan


def by_hand(case, iterations, factor):
    """A loop that forms both losses, compares their relative changes, and moves one network with plain autograd."""
    gan, reals, latents = tiny_gan(CASES[case]), real_batches(), stream(3, "latents")
    G, D, loss = gan.generator, gan.discriminator, gan.loss
    moved, before = [], None

    def draw():
        return torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=latents)

    for _ in range(iterations):
        x = next(reals)
        with torch.no_grad():
            real, fake = D(x), D(G(draw()))
            now = loss.d_loss(real, fake).item(), loss.g_loss(real, fake).item()
        if before is None:
            moved.append("both")
            fake = G(draw())
            descend(gan.optimizer_d, loss.d_loss(D(x), D(fake.detach())))
            descend(gan.optimizer_g, loss.g_loss(D(x).detach(), D(fake)))
        elif abs((now[0] - before[0]) / before[0]) > factor * abs((now[1] - before[1]) / before[1]):
            moved.append("d")
            descend(gan.optimizer_d, loss.d_loss(D(x), D(G(draw()).detach())))
        else:
            moved.append("g")
            descend(gan.optimizer_g, loss.g_loss(D(x).detach(), D(G(draw()))))
        before = now
    return state(gan), moved


@pytest.mark.parametrize(("case", "factor"), [("hinge", 1.0), ("nonsaturating", 0.5), ("ragan", 1.05)])
def test_the_loop_by_hand(case, factor):
    expected, moved = by_hand(case, 14, factor)
    assert {"d", "g"} <= {*moved}
    gan, reals, wrapped = tiny_gan(CASES[case]), real_batches(), LossChange(detach, factor=factor)
    for t, who in enumerate(moved):
        before = dict(gan.meter.updates)
        wrapped(gan, reals, d_steps=1, g_steps=1)
        made = {network: gan.meter.updates[network] - before[network] for network in "dg"}
        assert made == {"d": int(who != "g"), "g": int(who != "d")}, t
    torch.testing.assert_close(state(gan), expected, rtol=1e-9, atol=1e-11)


def test_relative_changes_are_compared_without_dividing():
    assert d_should_move([2.0, -1.0], [3.0, -1.4], 1.0)
    assert not d_should_move([2.0, -1.0], [3.0, -1.4], 1.3)
    assert not d_should_move([0.0, 0.0], [1.0, 1.0], 1.0)
    assert d_should_move([0.0, 1.0], [1.0, 1.0], 1.0) is True


@pytest.mark.parametrize("strategy", ["detach", "joint", "unrolled", "past_extragradient"])
def test_any_strategy_moves_one_network_with_all_its_steps(strategy):
    gan, reals, wrapped = tiny_gan(CASES[suited(strategy)]), real_batches(), LossChange(STRATEGIES[strategy])
    wrapped(gan, reals, d_steps=2, g_steps=3)
    for _ in range(3):
        before = dict(gan.meter.updates)
        wrapped(gan, reals, d_steps=2, g_steps=3)
        assert (gan.meter.updates["d"] - before["d"], gan.meter.updates["g"] - before["g"]) in ((2, 0), (0, 3))


def test_other_wrappers_act_around_and_inside():
    for wrap in (
        lambda: Lookahead(LossChange(TopK(resample, nu=0.5, gamma=0.5, every=1))),
        lambda: LossChange(Lookahead(detach)),
    ):
        gan, reals, wrapped = tiny_gan(CASES["hinge"]), real_batches(), wrap()
        for _ in range(8):
            wrapped(gan, reals, d_steps=1, g_steps=1)
        assert all(p.isfinite().all() for p in state(gan))
        assert gan.meter.updates["d"] + gan.meter.updates["g"] == 9


@pytest.mark.parametrize(("inside", "counted"), [(True, BATCH // 2), (False, BATCH)])
def test_inside_top_k_g_s_loss_is_that_of_the_best_fakes(inside, counted):
    change = LossChange(detach)
    best = TopK(change if inside else detach, nu=0.5, gamma=0.5, every=1)
    best.passed["iterations"] = 1
    change.strategy = change.strategy if inside else best
    untrained = tiny_gan(CASES["nonsaturating"])
    z = torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=stream(3, "latents"))
    scores = untrained.discriminator(untrained.generator(z)).sort(descending=True).values
    (best if inside else change)(tiny_gan(CASES["nonsaturating"]), real_batches(), d_steps=1, g_steps=1)
    assert change.losses[1] == pytest.approx(torch.log1p((-scores[:counted]).exp()).mean().item(), rel=1e-12)


def test_what_d_sees_is_replayed_inside_too():
    gan, reals, replay = tiny_gan(CASES["hinge"]), real_batches(), Replay(detach, size=BATCH)
    wrapped = LossChange(replay, factor=1e-9)  # D moves, but in the first iteration
    for _ in range(4):
        wrapped(gan, reals, d_steps=1, g_steps=1)
    assert (replay.passed["draws"], gan.meter.updates["g"]) == (4, 1)
