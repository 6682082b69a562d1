"""Penalties on scores, and G's terms: loops by hand in float64, NumPy's padding, other strategies, and what does not fit."""

import numpy as np
import pytest
import torch

from ganexp import GAN, Prior, build, strategies
from ganexp.batch import Batch
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.losses import Minimax, NonSaturating
from ganexp.networks import MLPDiscriminator, MLPGenerator
from ganexp.penalties import BalancedConsistency, Consistency, LatentConsistency, LeCam, Sum
from ganexp.penalties.consistency import ShiftAndFlip
from tests.composing import composed, every_strategy
from tests.small_runs import NARROW
from tests.tiny import STRATEGIES, ZERO_SUM, descend, iterate, state, train

SHAPE = (1, 8, 8)
ALL = {
    "lecam": lambda: LeCam(weight=0.7, decay=0.6),
    "cr": lambda: Consistency(weight=2.0, shift=0.25),
    "bcr": lambda: BalancedConsistency(real_weight=2.0, fake_weight=3.0, shift=0.25),
    "zcr": lambda: LatentConsistency(d_weight=2.0, g_weight=0.3, noise=0.4),
    "sum": lambda: Sum(parts={"lecam": LeCam(decay=0.5), "zcr": LatentConsistency(noise=0.4)}),
}


def image_gan(penalty, loss=NonSaturating, *, dtype=torch.float64, **settings):
    torch.manual_seed(0)
    generator = MLPGenerator(3, SHAPE, width=5, depth=1).to(dtype)
    discriminator = MLPDiscriminator(SHAPE, width=5, depth=1).to(dtype)
    optimizers = (torch.optim.Adam(network.parameters(), lr=0.02, eps=1e-4) for network in (generator, discriminator))
    prior = Prior(3, seed=3, dtype=dtype)
    return GAN(generator, discriminator, loss(), *optimizers, prior, batch_size=6, penalty=penalty, **settings)


def reals():
    draw = torch.Generator().manual_seed(5)
    while True:
        yield Batch(torch.randn(6, *SHAPE, generator=draw, dtype=torch.float64))


def ends(name, strategy):
    return train(image_gan(ALL[name]()), strategy, reals=reals(), d_steps=2)


class ByHand:
    """The terms of a penalty in plain words; T and δ are drawn from the same streams by the penalty's own objects."""

    def __init__(self, penalty):
        self.penalty, self.real, self.fake, self.t = penalty, 0.0, 0.0, 0

    def near(self, z):
        return z + torch.empty_like(z).normal_(0, self.penalty.noise, generator=self.penalty.rng)

    def lecam(self, G, D, x, z, fake, real_scores, fake_scores):
        self.real = 0.6 * self.real + 0.4 * real_scores.detach().numpy().mean()
        self.fake = 0.6 * self.fake + 0.4 * fake_scores.detach().numpy().mean()
        self.t += 1
        real, made = (one / (1 - 0.6**self.t) for one in (self.real, self.fake))
        above, below = (real_scores - made).clamp(min=0), (real - fake_scores).clamp(min=0)
        return 0.7 * ((above**2).mean() + (below**2).mean())

    def cr(self, G, D, x, z, fake, real_scores, fake_scores):
        return 2.0 * ((real_scores - D(self.penalty.moved.transform(x))) ** 2).mean()

    def bcr(self, G, D, x, z, fake, real_scores, fake_scores):
        real = 2.0 * ((real_scores - D(self.penalty.moved.transform(x))) ** 2).mean()
        return real + 3.0 * ((fake_scores - D(self.penalty.moved.transform(fake))) ** 2).mean()

    def zcr(self, G, D, x, z, fake, real_scores, fake_scores):
        return 2.0 * ((fake_scores - D(G(self.near(z)).detach())) ** 2).mean()

    def zcr_of_g(self, G, z, fake):
        return -0.3 * ((fake - G(self.near(z))) ** 2).mean()


@pytest.mark.parametrize("name", ["lecam", "cr", "bcr", "zcr"])
def test_a_plain_loop(name):
    gan, loop, batches, plain = image_gan(ALL[name]()), image_gan(ALL[name]()), reals(), reals()
    G, D, by_hand = loop.generator, loop.discriminator, ByHand(loop.penalty)
    for _ in range(5):
        strategies.detach(gan, batches, d_steps=1, g_steps=1)
        x, z = next(plain).values, loop.sample().values
        fake = G(z)
        real_scores, fake_scores = D(x), D(fake.detach())
        loss = loop.loss.d_loss(real_scores, fake_scores)
        descend(loop.optimizer_d, loss + getattr(by_hand, name)(G, D, x, z, fake.detach(), real_scores, fake_scores))
        further = by_hand.zcr_of_g(G, z, fake) if name == "zcr" else 0
        descend(loop.optimizer_g, loop.loss.g_loss(None, D(fake)) + further)
    torch.testing.assert_close(state(gan), state(loop), rtol=1e-10, atol=1e-11)
    assert ("loss/g_penalty" in gan.meter.so_far()) == (name == "zcr")


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize(
    "penalty",
    [
        Consistency(shift=0, flip=False),
        BalancedConsistency(shift=0, flip=False),
        LatentConsistency(noise=1e-30),  # which changes no z
    ],
)
def test_under_mixed_precision_what_nothing_changes_costs_nothing(penalty, accumulate):
    """Both scores of each sample are from passes of one precision."""
    gan = image_gan(penalty, dtype=torch.float32, autocast=torch.bfloat16, accumulate=accumulate)
    fake = gan.generate(gan.sample())
    x = Batch(torch.randn(6, *SHAPE))
    for objective in (gan.d_loss(x, fake), gan.losses_of_both(x, fake)[0]):
        assert objective.penalty.item() == 0
    ahead = strategies.Unrolled(k=1, rate=0.1)
    assert ahead.g_loss(gan, x, fake).value.isfinite()
    if isinstance(penalty, LatentConsistency):
        assert gan.g_loss(None, fake).penalty.item() == 0


@pytest.mark.parametrize("flip", [False, True])
def test_images_are_moved_by_whole_pixels_and_mirrored_at_the_edges(flip):
    move, x = ShiftAndFlip(0.25, flip), torch.rand(300, 2, 8, 8)
    move.begin(0, torch.device("cpu"))
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    found = set()
    for image, whole, moved in zip(x.numpy(), padded, move.transform(x).numpy(), strict=True):
        for mirrored in (False, True):
            source = np.pad(image[:, :, ::-1], ((0, 0), (2, 2), (2, 2)), mode="reflect") if mirrored else whole
            for down in range(5):
                for right in range(5):
                    if np.array_equal(moved, source[:, down : down + 8, right : right + 8]):
                        found.add((mirrored, down, right))
    assert len(found) == (50 if flip else 25)


@pytest.mark.parametrize("name", ALL)
def test_strategies_stay_the_same_algorithms(name):
    joint = ends(name, strategies.joint)
    torch.testing.assert_close(joint, ends(name, strategies.OneStage()), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ends(name, strategies.detach), ends(name, strategies.retain_graph), rtol=0, atol=0)


@pytest.mark.parametrize("strategy", every_strategy(but=ZERO_SUM))
def test_every_strategy_has_them(strategy):
    """With weights of 0 it is the strategy without them, whatever it does with their terms."""
    none, weightless = (
        image_gan(None, Minimax),
        image_gan(Sum(parts={"a": LeCam(weight=0), "b": LatentConsistency(d_weight=0, g_weight=0)}), Minimax),
    )
    ends = [train(gan, STRATEGIES[strategy], 2, reals=reals(), d_steps=2) for gan in (none, weightless)]
    torch.testing.assert_close(*ends, rtol=1e-7, atol=1e-8)


def test_looking_moves_no_average_and_a_state_is_resumed():
    gan, resumed, batches = image_gan(ALL["lecam"]()), image_gan(ALL["lecam"]()), reals()
    strategies.detach(gan, batches, d_steps=2, g_steps=1)
    x, fake = next(batches), gan.generate(gan.sample()).detach()
    values = {gan.d_loss(x, fake).penalty.item() for _ in range(3)}
    assert len(values) == 1
    resumed.load_state_dict(gan.state_dict())
    assert resumed.d_loss(x, fake).penalty.item() in values
    strategies.detach(gan, batches, d_steps=1, g_steps=1)
    assert resumed.penalty.state_dict()["share"] == pytest.approx(1 - 0.6**2)


def test_without_the_scores_of_a_loss_they_are_computed():
    gan, x = image_gan(None), next(reals()).values
    for name in ("lecam", "cr", "bcr"):
        alone, seen = ALL[name](), image_gan(ALL[name]())
        alone.begin(3, torch.device("cpu"))
        assert alone.term(gan.discriminator, x, x).item() == pytest.approx(
            seen.d_loss(Batch(x), Batch(x)).penalty.item(), rel=1e-12
        )


def test_they_train_on_labels():
    trainer = build(composed(*NARROW, "penalty=[lecam,bcr,zcr]", "conditional=true"))
    iterate(trainer, 2)
    assert 0 < trainer.gan.meter.so_far()["loss/penalty"] < 1e3


def test_packs_are_moved_as_one_and_made_of_their_latents():
    trainer = build(composed(*NARROW, "penalty=[bcr,zcr]", "pack=2"))
    iterate(trainer, 2)
    assert trainer.gan.meter.so_far()["loss/g_penalty"] < 0


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["penalty=cr", "dataset=ring", "generator=mlp", "discriminator=mlp"], "penalty.cr moves images"),
        (["penalty=lecam", "loss=began", "discriminator=began"], "penalty.lecam holds down scores that are high"),
        (["penalty=zcr", "wrapper=replay"], "choose a wrapper list without replay"),
        (["penalty=lecam", "strategy=competitive", "loss=minimax"], "depends on G as well: choose joint"),
        (["penalty=lecam", "penalty.lecam.decay=1"], "penalty.lecam.decay must be less than 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(overrides, said):
    with pytest.raises(UserError, match=said):
        check(composed(*overrides))


def test_a_module_with_other_weights_is_penalised_for_those():
    """Unrolled steps through a penalty on scores, against plain steps of a copy."""
    gan = image_gan(ALL["lecam"]())
    x, z = next(reals()), gan.sample()
    value = strategies.Unrolled(k=2, rate=0.05).g_loss(gan, x, gan.generate(z)).value.item()
    D, fake = gan.discriminator, gan.generator(z.values).detach()
    for _ in range(2):
        loss = gan.loss.d_loss(D(x.values), D(fake)) + gan.penalty.term(D, x, fake)
        weights = list(D.parameters())
        for p, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            p.data.sub_(0.05 * gradient)
    assert value == pytest.approx(gan.loss.g_loss(None, D(fake)).item(), rel=1e-12)
