"""A plain loop of CycleGAN, in float64, is `g_first` with replay; and its two terms, by hand."""

import itertools
from functools import partial

import pytest
import torch

from ganexp import GAN, Batch, Step, UserError, strategies
from ganexp.config.check import check
from ganexp.losses import LSGAN
from ganexp.networks import PatchDiscriminator, ResNetTranslator, TwoWayDiscriminator, TwoWayGenerator
from ganexp.sources import PreviewSamples, Sources
from ganexp.streams import stream
from ganexp.terms import Cycle, Identity
from ganexp.wrappers import Replay
from tests.composing import composed
from tests.distributed.forks import several
from tests.tiny import descend, state

SHAPE, B, SIZE, ITERATIONS = (2, 12, 12), 4, 6, 6


def cyclegan(processes=None):
    torch.manual_seed(0)
    generator = TwoWayGenerator(SHAPE, SHAPE, of=partial(ResNetTranslator, width=2, blocks=1, norm="none")).double()
    discriminator = TwoWayDiscriminator(SHAPE, of=partial(PatchDiscriminator, width=2, layers=1)).double()
    return GAN(
        generator,
        discriminator,
        LSGAN(),
        torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999)),
        torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999)),
        Sources(PreviewSamples(lambda _: None, 0, paired=False), seed=3, dtype=torch.float64),
        batch_size=B,
        processes=processes,
        terms={"cycle": Cycle(weight=5.0), "identity": Identity(weight=2.5)},
    )


def stacks():
    for number in itertools.count():
        rng = torch.Generator().manual_seed(number)
        x = torch.rand(B, *SHAPE, generator=rng, dtype=torch.float64) * 2 - 1
        yield Batch(x, source=x)


def trained(processes=None):
    gan, step_of = cyclegan(processes), Replay(strategies.g_first, size=SIZE, share=0.5)
    step, reals = Step(gan, step_of), stacks() if processes is None else map(processes.own, stacks())
    for _ in range(ITERATIONS):
        step(reals)
    return state(gan)


def square(scores, target):
    return (scores - target).square().mean()


def plain_loop():
    """Train as CycleGAN's authors do, in their words and with their weights, with a pool of whole batches."""
    gan, reals, pool = cyclegan(), stacks(), []
    F, G, (D_a, D_b) = gan.generator.b_to_a, gan.generator.a_to_b, gan.discriminator.halves
    for i in range(ITERATIONS):
        a, b = next(reals).values.chunk(2, 1)
        fake_b, fake_a = G(a), F(b)
        adversarial = square(D_b(fake_b), 1) + square(D_a(fake_a), 1)
        cycle = (F(fake_b) - a).abs().mean() + (G(fake_a) - b).abs().mean()
        identity = (G(b) - b).abs().mean() + (F(a) - a).abs().mean()
        whole = adversarial + 10 * cycle + 5 * identity
        descend(gan.optimizer_g, whole / 4)  # the mean of two directions, and half a square, in place of a sum
        shown = list(zip(fake_a.detach(), fake_b.detach(), strict=True))
        if len(pool) < SIZE:
            pool = (pool + shown)[:SIZE]
        else:
            rng = stream(3, "replay", index=i)
            taken, replaced = (
                torch.rand(SIZE, dtype=torch.float64, generator=rng).argsort(descending=True)[: B // 2].tolist()
                for _ in range(2)
            )
            new, shown = shown[B // 2 :], shown[: B // 2] + [pool[j] for j in taken]
            for j, one in zip(replaced, new, strict=True):
                pool[j] = one
        old_a, old_b = (torch.stack(one) for one in zip(*shown, strict=True))
        of_a = (square(D_a(a), 1) + square(D_a(old_a), 0)) / 2
        of_b = (square(D_b(b), 1) + square(D_b(old_b), 0)) / 2
        descend(gan.optimizer_d, (of_a + of_b) / 2)  # the mean of two discriminators
    return state(gan)


def test_a_plain_cyclegan_loop_with_a_pool_is_g_first_with_replay():
    torch.testing.assert_close(trained(), plain_loop(), rtol=1e-9, atol=1e-11)


def test_two_processes_are_one(tmp_path):
    for ends in several(2, trained, tmp_path):
        torch.testing.assert_close(ends, trained(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("term", ["cycle", "identity"])
def test_a_term_of_two_directions_is_refused_where_g_has_one(term):
    with pytest.raises(UserError, match="two_way"):
        check(composed("dataset=degraded", "generator=unet", "discriminator=patch", f"term=[{term}]", "logger=[]"))
