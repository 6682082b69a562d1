"""What watches a run moves no mode, no buffer and no random stream, whatever the networks are like."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import dropout
from torch.utils.data import DataLoader

from ganexp import GAN, Prior
from ganexp.evaluation.statistics import FeatureBatch
from ganexp.losses import NonSaturating
from ganexp.training import Diagnostics, Samples
from ganexp.training.callbacks import Evaluation
from ganexp.training.callbacks.samples import draw
from tests.small_runs import Rows, assert_same
from tests.tiny import tiny_trainer


class Moody(nn.Module):
    """Has a batch norm and a dropout that were put into evaluation mode for good, beside those that train."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.frozen, self.silent = nn.BatchNorm1d(8).eval(), nn.Dropout(0.5).eval()
        self.alive = nn.BatchNorm1d(8)
        self.first, self.last = nn.Linear(inputs, 8), nn.Linear(8, outputs)

    def forward(self, x):
        return self.last(self.silent(self.alive(self.frozen(self.first(x))))).squeeze(1)


class Noisy(nn.Module):
    """A generator that draws random numbers in each forward pass, from every global stream there is."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, z):
        noise = torch.randn(len(z), 2) + np.random.rand() + random.random()  # noqa: NPY002
        return dropout(self.layer(z), 0.5) + noise


class Counting(Moody):
    """Counts its passes in a buffer, in evaluation mode too, and makes other outputs of it."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes = self.passes + 1
        return super().forward(x) * (1 + 0.01 * self.passes)


def seeded():
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)


class Looking:
    """An evaluator that keeps the samples that it is given."""

    def __init__(self, samples):
        self.seen = samples

    def extract(self, batch):
        return [FeatureBatch(batch.values, batch.values)]

    def compare(self, batches):
        self.seen.append(torch.cat([features.samples for (features,) in batches]))
        return {"eval/n": 1.0}


WATCHING = {
    "samples": lambda samples: Samples(1),
    "evaluation": lambda samples: Evaluation(1, Looking(samples), samples=600),
    "diagnostics": lambda samples: Diagnostics(1, torch.rand(4, 2, generator=torch.Generator().manual_seed(0))),
}
KEYS = {"samples": "samples", "evaluation": "eval/n", "diagnostics": "diversity/distance"}


NETWORKS = {
    "frozen": lambda: (Moody(3, 2), Moody(2, 1)),
    "noisy": lambda: (Noisy(), Moody(2, 1)),
    "counting": lambda: (Counting(3, 2), Counting(2, 1)),
}


@pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("watching", WATCHING)
def test_watching_does_not_steer_training(watching, make):
    ends = []
    for watched in (False, True):
        seeded()
        generator, discriminator = make()
        optimizers = (torch.optim.SGD(network.parameters(), 0.05) for network in (generator, discriminator))
        gan = GAN(generator, discriminator, NonSaturating(), *optimizers, Prior(3), batch_size=4)
        reals = DataLoader(torch.arange(16.0).view(8, 2), 4)  # which draws a seed from the stream that the noise comes from
        trainer, samples = tiny_trainer(gan=gan, reals=reals, iterations=4, loggers=[Rows()]), []
        trainer.callbacks += [WATCHING[watching](samples)] * watched
        trainer.fit()
        ends.append(copy.deepcopy(gan.state_dict()))
        assert (KEYS[watching] in trainer.last_row) == watched
        assert all(len(measured) == 600 for measured in samples)
        assert [network.training for network in (discriminator.frozen, discriminator.alive)] == [False, True]
    assert_same(*ends)


def test_every_module_gets_its_own_mode_back():
    generator, discriminator = Moody(3, 2), Moody(2, 1)
    draw(generator, discriminator, Prior(3), torch.randn(8, 2), 1)
    for network in (generator, discriminator):
        assert (network.training, network.alive.training) == (True, True)
        assert (network.frozen.training, network.silent.training) == (False, False)


def test_a_noisy_generator_makes_the_same_picture_of_the_same_weights():
    seeded()
    generator, reals = Noisy(), torch.randn(8, 2)
    first, second = (draw(generator, Moody(2, 1), Prior(3, seed=5), reals, 1)["samples"].image for _ in range(2))
    assert np.array_equal(first, second)
