"""Schedules of steps: published counts, and D that rests while it is too good."""

import itertools
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch

from ganexp import strategies
from ganexp.strategies import detach
from ganexp.streams import stream
from ganexp.wrappers import Balanced, LatentStep, TopK, WarmUp, Wrapper
from ganexp.wrappers.step_counts import on_right_side
from tests.composing import suited
from tests.tiny import BATCH, CASES, LATENT, STRATEGIES, descend, real_batches, state, tiny_gan, train
from tests.wrappers.latent_steps import ALPHA, BETA, moved


def counts(wrap, iterations, **conditions):
    seen = []
    wrapped = wrap(lambda gan, reals, *, d_steps, g_steps: seen.append((d_steps, g_steps)))
    for _ in range(iterations):
        wrapped(None, None, **conditions)
    return seen


def test_the_published_counts_of_wgan():
    """Their code: `if gen_iterations < 25 or gen_iterations % 500 == 0: 100, else 5`, counted from 0."""
    published = [(100 if t < 25 or t % 500 == 0 else 5, 1) for t in range(1500)]
    assert counts(WarmUp, 1500, d_steps=5, g_steps=1) == published
    assert sum(d for d, _ in published) == 5 * 1500 + 95 * 27
    of_g = counts(lambda inside: WarmUp(inside, first=2, every=0, many=7, of="g"), 5, d_steps=3, g_steps=1)
    assert of_g == [(3, 7)] * 2 + [(3, 1)] * 3


def test_samples_of_both_kinds_are_counted():
    real, fake = torch.tensor([1.0, 2.0, -1.0, 3.0]), torch.tensor([-1.0, 1.0, -2.0, -3.0])
    assert on_right_side(CASES["hinge"].loss(), real, fake) == 3 + 3
    assert on_right_side(CASES["lsgan"].loss(), real, fake + 1.6) == 3 + 2  # its boundary is ½


@pytest.mark.parametrize("batch", range(5, 15))
def test_an_accuracy_that_is_the_bound_is_not_below_it(batch):
    """Means of shares round: (0.7 + 0.9 + 0.8) / 3 is 0.7999999999999999."""
    gan = SimpleNamespace(batch_size=batch, g_batch=batch, pack=1)
    for right in itertools.product(range(2 * batch + 1), repeat=2):
        share = Fraction(sum(right), 4 * batch)
        if share > Fraction(1, 2):
            wrapped = Balanced(detach, bound=float(share))
            wrapped.right = list(right)
            assert wrapped.accuracy(gan) == wrapped.bound
            wrapped.right = [right[0], right[1] - 1]
            assert wrapped.accuracy(gan) < wrapped.bound
    wrapped = Balanced(detach)
    wrapped.right = [14, 18, 16]
    assert wrapped.accuracy(SimpleNamespace(batch_size=10, g_batch=10, pack=1)) == wrapped.bound


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["detach", "joint", "unrolled", "past_extragradient"])
def test_d_rests_exactly_while_its_accuracy_is_at_its_bound(strategy):
    gan, reals = tiny_gan(CASES[suited(strategy)]), real_batches()
    wrapped = Balanced(STRATEGIES[strategy], bound=0.6, window=2)
    rested = moved = 0
    for _ in range(30):
        due = not wrapped.right or sum(wrapped.right) / (2 * BATCH * len(wrapped.right)) < 0.6
        before = dict(gan.meter.updates)
        weights = [p.detach().clone() for p in gan.discriminator.parameters()]
        wrapped(gan, reals, d_steps=2, g_steps=2)
        assert gan.meter.updates == {"d": before["d"] + (2 if due else 0), "g": before["g"] + 2}
        same = all(torch.equal(a, b) for a, b in zip(weights, gan.discriminator.parameters(), strict=True))
        assert same != due
        assert len(wrapped.right) <= 2
        rested, moved = rested + (not due), moved + due
    assert rested
    assert moved


def test_g_alone_has_the_objective_that_the_strategy_has_for_it():
    ahead, plain = (tiny_gan(CASES["nonsaturating"]) for _ in range(2))
    for gan, inside in ((ahead, strategies.Unrolled(k=2, rate=0.5)), (plain, detach)):
        wrapped = Balanced(inside, bound=0.6)
        wrapped.right = [2 * BATCH]
        wrapped(gan, real_batches(), d_steps=1, g_steps=1)
    assert not torch.equal(next(ahead.generator.parameters()), next(plain.generator.parameters()))


def test_a_loss_without_a_boundary_is_refused():
    with pytest.raises(ValueError, match="needs a loss with a boundary between real and generated, which RaGAN lacks"):
        Balanced(detach)(tiny_gan(CASES["ragan"]), real_batches(), d_steps=1, g_steps=1)


class OfItsOwn(Wrapper):
    def __call__(self, gan, reals, *, d_steps, g_steps):
        self.strategy(gan, reals, d_steps=1, g_steps=g_steps)


def test_a_wrapper_that_lets_d_move_while_it_rests_is_refused():
    wrapped = Balanced(OfItsOwn(detach), bound=0.6)
    wrapped.right = [2 * BATCH]
    with pytest.raises(ValueError, match="a wrapper inside has updated D"):
        wrapped(tiny_gan(CASES["nonsaturating"]), real_batches(), d_steps=1, g_steps=1)


NU, GAMMA, BOUND, WINDOW = 0.3, 0.6, 0.55, 2


def plain_balanced(loss, iterations, *, topk, latent_step):
    """A textbook loop of detach that counts what D takes for real, sorts its scores, and moves latents one by one."""
    gan, reals, latents = tiny_gan(CASES[loss]), real_batches(), stream(3, "latents")
    G, D, opt_g, opt_d = gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d
    shares, rested = [], []
    for i in range(iterations):
        x, z = next(reals), torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=latents)
        if latent_step:
            z = moved(G, D, z, natural=True, through=True)
        fake, real_scores = G(z), D(x)
        rested.append(bool(shares) and sum(shares[-WINDOW:]) / len(shares[-WINDOW:]) >= BOUND)
        if not rested[-1]:
            descend(opt_d, gan.loss.d_loss(real_scores, D(fake.detach())))
        scores = D(fake)
        k = round(max(GAMMA ** (i // 2), NU) * BATCH) if topk else BATCH
        best = sorted(range(BATCH), key=lambda j: scores[j].item())[BATCH - k :]
        descend(opt_g, gan.loss.g_loss(None, torch.stack([scores[j] for j in best])))
        right = sum(s > 0 for s in real_scores.tolist()) + sum(s <= 0 for s in scores.tolist())
        shares.append(right / (2 * BATCH))
    return state(gan), rested


@pytest.mark.parametrize("loss", ["nonsaturating", "hinge"])
@pytest.mark.parametrize(("topk", "latent_step"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_plain_loop_agrees_whatever_is_inside_and_whatever_around(loss, topk, latent_step):
    by_hand, rested = plain_balanced(loss, 10, topk=topk, latent_step=latent_step)
    assert 0 < sum(rested) < 10
    inner = [lambda inside: TopK(inside, nu=NU, gamma=GAMMA, every=2)] * topk
    inner += [lambda inside: LatentStep(inside, alpha=ALPHA, beta=BETA)] * latent_step
    wraps = [lambda inside: Balanced(inside, bound=BOUND, window=WINDOW), *inner]
    for order in (wraps, wraps[::-1]):
        gan, wrapped = tiny_gan(CASES[loss]), detach
        for wrap in order:
            wrapped = wrap(wrapped)
        torch.testing.assert_close(train(gan, wrapped, 10), by_hand, rtol=1e-10, atol=1e-12)
        assert gan.meter.updates == {"d": 10 - sum(rested), "g": 10}
