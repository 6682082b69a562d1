"""Early signs: of generators that have collapsed, of a discriminator that has memorised, at no one's expense."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from ganexp import GAN, Prior, build
from ganexp.batch import Batch
from ganexp.logging.keys import DIAGNOSTICS
from ganexp.losses import EBGAN, LSGAN, WGAN, Hinge, NonSaturating, SoftmaxGAN
from ganexp.training import Diagnostics
from ganexp.training.callbacks.diagnostics import MOST, accuracies, collapse, diversity
from tests.composing import composed
from tests.small_runs import Rows, assert_same
from tests.tiny import CASES, tiny_gan, tiny_trainer

SMALL = ("device=cpu", "iterations=6", "log_every=4", "sample_every=0", "logger=[]", "batch_size=8")
OF_POINTS = DIAGNOSTICS.keys() - {"diversity/near_duplicates"}


def images(n, seed=0):
    return torch.rand(n, 3, 8, 8, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def test_distances_are_those_of_numpy():
    fake, real = images(20), 0.5 * images(20, seed=1)
    means = []
    for samples in (fake, real):
        flat = samples.flatten(1).double().numpy()
        apart = np.sqrt(((flat[:, None] - flat) ** 2).sum(-1))
        means.append(apart.sum() / (20 * 19))
    figures = diversity(fake, real)
    assert figures["diversity/distance"] == pytest.approx(means[0], rel=1e-5)
    assert figures["diversity/relative"] == pytest.approx(means[0] / means[1], rel=1e-5)
    assert figures["diversity/near_duplicates"] == 0


@pytest.mark.parametrize("noise", [0.0, 1e-3], ids=["one image", "almost one image"])
def test_a_collapsed_generator_has_no_diversity_and_nothing_but_duplicates(noise):
    figures = diversity(images(1) + noise * images(32, seed=2), images(32, seed=1))
    assert figures["diversity/relative"] == pytest.approx(noise, rel=0.1)
    assert figures["diversity/near_duplicates"] == 1


def test_what_comes_twice_is_counted_and_nothing_else():
    fake = images(32)
    fake[5], fake[9] = fake[20], fake[20] + 1e-4
    assert diversity(fake, images(32, seed=1))["diversity/near_duplicates"] == 3 / 32


def test_points_have_no_near_duplicates_which_real_ones_have_too():
    fake, real = (torch.rand(64, 2, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    assert set(diversity(fake, real)) == {"diversity/distance", "diversity/relative"}


@pytest.mark.parametrize(
    ("relative", "near_duplicates", "symptom"),
    [
        (0.062, 1.0, "100 % of the samples have a near-duplicate"),  # digits: collapsed
        (0.406, 1.0, "100 % of the samples have a near-duplicate"),
        (0.96, 0.0, ""),  # digits: healthy
        (0.852, 0.156, ""),
        (0.034, None, "the samples are 3 % as far apart as real ones"),  # the ring: one mode
        (0.98, None, ""),  # the ring: eight
        (None, None, ""),  # without diagnostics
    ],
)
def test_a_collapse_is_said_where_it_is_clear(relative, near_duplicates, symptom):
    row = {"diversity/relative": relative, "diversity/near_duplicates": near_duplicates}
    sentence = collapse({key: value for key, value in row.items() if value is not None})
    assert sentence.startswith(f"Collapsed, or hardly trained yet: {symptom}" if symptom else "")
    assert bool(sentence) == bool(symptom)


@pytest.mark.parametrize("healthy", [False, True])
def test_a_run_that_has_collapsed_says_so_once(healthy):
    trainer = tiny_trainer(iterations=2, loggers=[Rows()])
    trainer.callbacks.append(Diagnostics(1))
    for optimizer in (trainer.gan.optimizer_d, trainer.gan.optimizer_g):
        for group in optimizer.param_groups:
            group["lr"] = 0.0
    with torch.no_grad():
        for generator in (trainer.gan.generator, trainer.step.average.generator):
            for parameter in generator.parameters():
                parameter.mul_(10.0 if healthy else 0.0)
    notes = trainer.fit()["notes"]
    assert [note.partition(":")[0] for note in notes] == ([] if healthy else ["Collapsed, or hardly trained yet"])


class Memory(nn.Module):
    """Scores what it has memorised, and everything else, with one number each."""

    def __init__(self, known, of_known, of_unknown):
        super().__init__()
        self.register_buffer("known", known)
        self.weight = nn.Parameter(torch.zeros(1))  # for the optimizer
        self.scores = of_known, of_unknown

    def forward(self, x):
        by_heart = torch.cdist(x.flatten(1), self.known.flatten(1)).amin(1) < 1e-3
        return torch.where(by_heart, *self.scores)


def accuracies_of(discriminator, loss, real, held_out):
    generator = nn.Linear(2, 2)
    gan = GAN(
        generator,
        discriminator,
        loss,
        torch.optim.SGD(generator.parameters(), 0.1),
        torch.optim.SGD(discriminator.parameters(), 0.1),
        Prior(2),
    )
    return accuracies(gan, Batch(real), Batch(images(16, seed=7)), Batch(held_out))


@pytest.mark.parametrize(
    ("loss", "known", "unknown"),
    [
        *((NonSaturating(), 2.0, -2.0), (Hinge(), 0.1, -3.0), (LSGAN(), 0.8, 0.1), (WGAN(), 90.0, 70.0)),
        *((EBGAN(), 0.1, 5.0), (SoftmaxGAN(), 0.1, 5.0)),  # low scores are real ones
    ],
)
def test_a_discriminator_that_has_memorised_fails_on_held_out_images(loss, known, unknown):
    real = images(16, seed=3)
    figures = accuracies_of(Memory(real, known, unknown), loss, real, images(16, seed=4))
    assert figures == {"accuracy/real": 1, "accuracy/fake": 1, "accuracy/held_out": 0}


def test_one_that_takes_everything_for_real_is_right_on_reals_alone():
    real = images(16, seed=3)
    figures = accuracies_of(Memory(real, 2.0, 1.0), NonSaturating(), real, images(16, seed=4))
    assert figures == {"accuracy/real": 1, "accuracy/fake": 0, "accuracy/held_out": 1}


@pytest.mark.parametrize(
    "more",
    [
        ("experiment=ring", "conditional=true"),
        ("dataset=fake", "dataset.image_size=16", "augment=ada", "discriminator.spectral_norm=true"),
        ("dataset=fake", "dataset.image_size=16", "discriminator.batch_norm=true", "discriminator.minibatch_deviation=true"),
    ],
    ids=str,
)
def test_runs_with_diagnostics_are_the_same_to_the_last_bit(more):
    ends = []
    for every in (0, 2):
        narrow = ("generator.width=8", "discriminator.width=8", "dataset.n=300")
        trainer = build(composed(*SMALL, *narrow, *more, f"sample_every={every}", "batch_size=8", "iterations=4"))
        trainer.fit()
        ends.append(trainer.gan.state_dict())
    assert_same(*ends)
    of_images = "dataset=fake" in more
    assert trainer.last_row.keys() & DIAGNOSTICS.keys() == (
        DIAGNOSTICS.keys() - {"accuracy/held_out"} if of_images else OF_POINTS
    )
    assert all(0 <= value <= 1 for key, value in trainer.last_row.items() if key.startswith("accuracy/"))


def test_what_has_no_value_is_left_out():
    assert diversity(images(1), images(1)) == {}
    broken = diversity(images(4) * math.nan, images(4))
    assert all(math.isnan(value) for value in broken.values())
    trainer = tiny_trainer(iterations=1, loggers=[Rows()])
    trainer.callbacks.append(Diagnostics(1))
    trainer.fit()
    with torch.no_grad():
        for parameter in trainer.gan.generator.parameters():
            parameter.fill_(math.nan)
    figures = trainer.callbacks[-1](trainer)
    assert figures.keys() == {"accuracy/real"}


def test_the_cost_is_a_few_passes_of_few_samples():
    trainer = tiny_trainer(iterations=1, loggers=[Rows()])
    trainer.fit()
    passed = []
    for network in {trainer.step.average.generator, trainer.gan.generator, trainer.gan.discriminator}:
        network.register_forward_hook(lambda module, inputs, output: passed.append(len(inputs[0])))
    trainer.reals._last = Batch(torch.rand(1000, 2, dtype=torch.float64))
    Diagnostics(1, torch.rand(1000, 2, dtype=torch.float64))(trainer)
    assert passed == [MOST] * 5


def test_held_out_samples_that_fill_no_pack_are_left_out():
    trainer = tiny_trainer(gan=tiny_gan(CASES["hinge"], pack=3, wrap=Packs), iterations=1, loggers=[Rows()])
    trainer.fit()
    few, enough = (Diagnostics(1, torch.rand(n, 2, dtype=torch.float64))(trainer) for n in (2, 5))
    assert "accuracy/held_out" not in few
    assert enough.keys() == OF_POINTS


class Packs(nn.Module):
    """A discriminator of packs of three points, around one of single ones."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x[:, :2])
