"""Schedules of steps: published counts, and D that rests while it is too good."""

import pytest
import torch

from ganexp import strategies
from ganexp.strategies import Balanced, WarmUp, detach
from ganexp.strategies.step_counts import accuracy
from tests.composing import suited
from tests.tiny import CASES, STRATEGIES, real_batches, tiny_gan


def counts(wrap, iterations, **given):
    seen = []
    wrapped = wrap(lambda gan, reals, *, d_steps, g_steps: seen.append((d_steps, g_steps)))
    for _ in range(iterations):
        wrapped(None, None, **given)
    return seen


def test_the_published_counts_of_wgan():
    """Their code: `if gen_iterations < 25 or gen_iterations % 500 == 0: 100, else 5`, counted from 0."""
    published = [(100 if t < 25 or t % 500 == 0 else 5, 1) for t in range(1500)]
    assert counts(WarmUp, 1500, d_steps=5, g_steps=1) == published
    assert sum(d for d, _ in published) == 5 * 1500 + 95 * 27
    of_g = counts(lambda inside: WarmUp(inside, first=2, every=0, many=7, of="g"), 5, d_steps=3, g_steps=1)
    assert of_g == [(3, 7)] * 2 + [(3, 1)] * 3


def test_accuracy_is_the_mean_over_both_kinds():
    real, fake = torch.tensor([1.0, 2.0, -1.0, 3.0]), torch.tensor([-1.0, 1.0, -2.0, -3.0])
    assert accuracy(CASES["hinge"].loss(), real, fake) == pytest.approx((3 / 4 + 3 / 4) / 2)
    assert accuracy(CASES["lsgan"].loss(), real, fake + 1.6) == pytest.approx((3 / 4 + 2 / 4) / 2)  # its boundary is ½


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_d_rests_exactly_while_its_accuracy_is_at_its_bound(strategy):
    gan, reals = tiny_gan(CASES[suited(strategy)]), real_batches()
    wrapped = Balanced(STRATEGIES[strategy], bound=0.6, window=2)
    rested = moved = 0
    for _ in range(30):
        due = not wrapped.accuracies or sum(wrapped.accuracies) / len(wrapped.accuracies) < 0.6
        before = dict(gan.meter.updates)
        weights = [p.detach().clone() for p in gan.discriminator.parameters()]
        wrapped(gan, reals, d_steps=2, g_steps=2)
        assert gan.meter.updates == {"d": before["d"] + (2 if due else 0), "g": before["g"] + 2}
        same = all(torch.equal(a, b) for a, b in zip(weights, gan.discriminator.parameters(), strict=True))
        assert same != due
        assert len(wrapped.accuracies) <= 2
        rested, moved = rested + (not due), moved + due
    assert rested
    assert moved


def test_g_alone_has_the_objective_that_the_strategy_has_for_it():
    ahead, plain = (tiny_gan(CASES["nonsaturating"]) for _ in range(2))
    for gan, inside in ((ahead, strategies.Unrolled(k=2, rate=0.5)), (plain, detach)):
        wrapped = Balanced(inside, bound=0.6)
        wrapped.accuracies = [1.0]
        wrapped(gan, real_batches(), d_steps=1, g_steps=1)
    assert not torch.equal(next(ahead.generator.parameters()), next(plain.generator.parameters()))


def test_a_loss_without_a_boundary_is_refused():
    with pytest.raises(ValueError, match="needs a loss with a boundary between real and generated, which RaGAN lacks"):
        Balanced(detach)(tiny_gan(CASES["ragan"]), real_batches(), d_steps=1, g_steps=1)
