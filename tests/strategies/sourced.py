"""Batches of points with sources, and GANs that train on them."""

import copy
import itertools

import torch

from ganexp import Batch, Step
from tests.tiny import BATCH, LATENT, iterate, state, tiny_trainer
from tests.training.tape import Tapes

WIDE = torch.linspace(-1, 1, 2 * LATENT, dtype=torch.float64).view(LATENT, 2)


def target_of(source):
    return (source @ WIDE).tanh()


def batches(start=0):
    for number in itertools.count(start):
        source = torch.randn(BATCH, LATENT, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        yield Batch(target_of(source) + 0.1, source=source)


def everything(gan):
    return [*state(gan), *(one.clone() for net in (gan.generator, gan.discriminator) for one in net.buffers())]


def trained(gan, strategy, iterations=4, reals=None):
    step, reals = Step(gan, strategy), reals or batches()
    for _ in range(iterations):
        step(reals)
    return everything(gan)


class Seekable:
    """Batches that can be drawn again from any place."""

    batch_size = BATCH

    def __init__(self):
        self.seek(0)

    def seek(self, count):
        self._batches = batches(count)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._batches)


def assert_recorded_and_resumed(make, strategy):
    """Compare a recorded run, and one that was resumed, with the plain one, to the last bit."""

    def trainer(**how):
        return tiny_trainer(strategy=copy.deepcopy(strategy), gan=make(), reals=Seekable(), iterations=8, **how)

    plain, recorded = trainer(), trainer(recording=Tapes)
    iterate(plain, 8)
    iterate(recorded, 8)
    assert recorded.step.recordings
    assert all(map(torch.equal, everything(plain.step.gan), everything(recorded.step.gan)))
    first, second = trainer(), trainer()
    iterate(first, 5)
    second.load_state_dict(first.state_dict())
    iterate(second, 3)
    assert all(map(torch.equal, everything(plain.step.gan), everything(second.step.gan)))
