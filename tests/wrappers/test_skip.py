"""A network that rests at random: how often, against a loop by hand, and with other wrappers."""

import pytest
import torch

from ganexp import strategies
from ganexp.streams import stream
from ganexp.wrappers import Lookahead, Skip, WarmUp
from tests.composing import suited
from tests.tiny import BATCH, CASES, LATENT, STRATEGIES, descend, real_batches, state, tiny_gan, train


def moved(wrapped, iterations, **counts):
    """Return how many updates of D and of G each iteration made."""
    gan, reals, made = tiny_gan(CASES["nonsaturating"]), real_batches(), []
    for _ in range(iterations):
        before = dict(gan.meter.updates)
        wrapped(gan, reals, **{"d_steps": 1, "g_steps": 1, **counts})
        made.append(tuple(gan.meter.updates[network] - before[network] for network in "dg"))
    return made


@pytest.mark.parametrize("of", ["d", "g"])
@pytest.mark.slow
def test_it_rests_as_often_as_asked_for(of):
    made = moved(Skip(strategies.detach, probability=0.3, of=of), 600, d_steps=2)
    moves, rests = (2, 1), (0, 1) if of == "d" else (2, 0)
    assert made[0] == moves
    assert {*made} == {moves, rests}
    assert made.count(rests) == pytest.approx(0.3 * 600, abs=4 * (600 * 0.3 * 0.7) ** 0.5)


def test_without_a_probability_it_is_the_strategy_inside():
    ends = [train(tiny_gan(CASES["began"]), one) for one in (strategies.joint, Skip(strategies.joint, probability=0))]
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_a_plain_loop():
    gan, reals, latents = tiny_gan(CASES["ragan"]), real_batches(), stream(3, "latents")
    G, D, loss, rested = gan.generator, gan.discriminator, gan.loss, 0
    for t in range(12):
        x, z = next(reals), torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=latents)
        fake = G(z)
        if t and torch.rand((), generator=stream(3, "skip", index=t)).item() < 0.4:
            rested += 1
        else:
            descend(gan.optimizer_d, loss.d_loss(D(x), D(fake.detach())))
        descend(gan.optimizer_g, loss.g_loss(D(x).detach(), D(fake)))
    assert 0 < rested < 12
    ends = train(tiny_gan(CASES["ragan"]), Skip(strategies.detach, probability=0.4), 12)
    torch.testing.assert_close(ends, state(gan), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("strategy", ["detach", "joint", "unrolled", "past_extragradient", "one_stage"])
def test_any_strategy_moves_the_other_network_with_all_its_steps(strategy):
    gan, reals = tiny_gan(CASES[suited(strategy)]), real_batches()
    wrapped = Skip(STRATEGIES[strategy], probability=0.5, of="g")
    for _ in range(8):
        wrapped(gan, reals, d_steps=2, g_steps=3)
    assert gan.meter.updates["d"] == 16
    assert gan.meter.updates["g"] in range(3, 24, 3)


def test_inside_and_around_other_wrappers_somebody_moves():
    for wrapped in (
        Skip(Skip(strategies.detach, probability=0.7, of="g"), probability=0.7, of="d"),
        Lookahead(Skip(WarmUp(strategies.detach, first=1, many=3), probability=0.7)),
    ):
        made = moved(wrapped, 20)
        assert all(d + g for d, g in made)
        assert len({*made}) > 1
