"""PacGAN: packs against plain loops and autograd of packs written without the project's verbs."""

import pytest
import torch

from ganexp import build, strategies
from ganexp.batch import Batch
from ganexp.gan.packing import packed, packed_shape
from ganexp.losses import WGAN, Hinge, NonSaturating, SoftmaxGAN
from ganexp.networks import MLPDiscriminator
from ganexp.penalties import R1, GradientPenalty, NoPenalty
from ganexp.streams import stream
from ganexp.training import Step
from tests.composing import composed, every_strategy
from tests.small_runs import NARROW
from tests.tiny import BATCH, STRATEGIES, Case, descend, iterate, real_batches, state, tiny_gan

PACK = 3


def gan_of_packs(loss=NonSaturating, penalty=NoPenalty):
    return tiny_gan(Case(loss, penalty, lambda: MLPDiscriminator((2 * PACK,), width=5, depth=2)), pack=PACK)


def side_by_side(samples):
    return torch.stack([torch.cat([samples[i + j] for j in range(PACK)]) for i in range(0, len(samples), PACK)])


def pulled(discriminator, x, fake, draws):
    """WGAN-GP's penalty of packs, whose points in between are of one share per pack."""
    share = torch.empty(BATCH // PACK, 1, dtype=torch.float64).uniform_(generator=draws)
    between = (share * x + (1 - share) * fake.detach()).requires_grad_()
    (derivative,) = torch.autograd.grad(discriminator(between).sum(), between, create_graph=True)
    return 10 * ((derivative.square().sum(1).sqrt() - 1) ** 2).mean()


def flattened(discriminator, x, fake, draws):
    """R1 of packs."""
    x = x.clone().requires_grad_()
    (derivative,) = torch.autograd.grad(discriminator(x).sum(), x, create_graph=True)
    return 10 / 2 * derivative.square().sum(1).mean()


def no_penalty(discriminator, x, fake, draws):
    return 0


@pytest.mark.parametrize("loss", [NonSaturating, Hinge, SoftmaxGAN])
@pytest.mark.parametrize(
    ("penalty", "by_hand"), [(NoPenalty, no_penalty), (GradientPenalty, pulled), (lambda: R1(weight=10.0), flattened)]
)
@pytest.mark.parametrize("joint", [False, True])
def test_it_is_a_plain_loop_over_packs(loss, penalty, by_hand, joint):
    gan, loop = gan_of_packs(loss, penalty), gan_of_packs(loss, penalty)
    step = Step(gan, strategies.joint if joint else strategies.detach)
    reals, plain, draws = real_batches(), real_batches(), stream(3, "gradient penalty")
    G, D = loop.generator, loop.discriminator
    for _ in range(4):
        step(reals)
        x, fake = side_by_side(next(plain)), side_by_side(G(loop.sample().values))
        loss_d = loop.loss.d_loss(D(x), D(fake.detach())) + by_hand(D, x, fake, draws)
        if joint:
            g_gradients = torch.autograd.grad(loop.loss.g_loss(D(x).detach(), D(fake)), list(G.parameters()))
        descend(loop.optimizer_d, loss_d)
        if not joint:
            g_gradients = torch.autograd.grad(loop.loss.g_loss(D(x).detach(), D(fake)), list(G.parameters()))
        for p, gradient in zip(G.parameters(), g_gradients, strict=True):
            p.grad = gradient
        loop.optimizer_g.step()
    torch.testing.assert_close(state(gan), state(loop), rtol=1e-11, atol=1e-9 if loss is SoftmaxGAN else 1e-12)


@pytest.mark.parametrize("loss", [NonSaturating, WGAN])
def test_one_stage_is_exact_for_packs(loss):
    ends = []
    for strategy in (strategies.joint, strategies.OneStage()):
        gan, reals = gan_of_packs(loss, R1), real_batches()
        for _ in range(5):
            Step(gan, strategy)(reals)
        ends.append(state(gan))
    torch.testing.assert_close(*ends, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("strategy", every_strategy())
def test_every_strategy_sees_packs(strategy):
    gan = gan_of_packs(WGAN, GradientPenalty)
    Step(gan, STRATEGIES[strategy], d_steps=2, g_steps=2)(real_batches())
    assert gan.meter.last_real.shape == gan.meter.last_fake.shape == (BATCH // PACK,)


def test_neighbours_lie_side_by_side_in_the_channels():
    images = torch.arange(6 * 2 * 4 * 4).view(6, 2, 4, 4)
    packs = packed(Batch(images), 3).values
    assert packs.shape == (2, *packed_shape((2, 4, 4), 3)) == (2, 6, 4, 4)
    assert all(torch.equal(packs[i, 2 * j : 2 * j + 2], images[3 * i + j]) for i in range(2) for j in range(3))
    batch = Batch(images, (torch.zeros(6),))
    assert packed(batch, 1) is batch
    for wrong, said in ((Batch(images[:4]), "4 samples do not fill packs of 3"), (batch, "labels cannot be packed")):
        with pytest.raises(ValueError, match=said):
            packed(wrong, 3)


@pytest.mark.parametrize(
    "overrides",
    [
        ["experiment=ring", "pack=2", "batch_size=16"],
        ["pack=4", "batch_size=8", "generator.width=4", "discriminator.width=4", "dataset.image_size=16", "precision=fp64"],
        [*NARROW, "pack=2", "strategy=one_stage", "penalty=dragan"],
        [*NARROW, "pack=2", "discriminator=mlp", "loss=ragan", "strategy=unrolled"],
    ],
)
def test_it_trains_from_a_configuration(overrides):
    trainer = build(composed(*overrides, "logger=[]"))
    iterate(trainer, 3)
    packs = trainer.gan.batch_size // trainer.gan.pack
    assert trainer.gan.meter.last_fake.shape == (packs,)
    assert trainer.gan.meter.so_far()["loss/d"] < 1e3
