"""ganexp's own strategies, watched from outside."""

import copy
import itertools
from functools import partial

import torch

import ganexp
from ganexp import strategies
from ganexp.losses import Minimax
from ganexp.networks import MLPDiscriminator, MLPGenerator

NAMED = strategies.by_name()
THEMSELVES = [name for name, one in NAMED.items() if not (one.looks_ahead or one.differentiates_gradients)]
"""Those that the trace tells."""


def gan_and_reals(loss=Minimax, optimizer=torch.optim.SGD, lr=1e-2):
    torch.manual_seed(0)
    g, d = MLPGenerator(4, (2,), width=8), MLPDiscriminator((2,), width=8)
    optimizers = [optimizer(one.parameters(), lr=lr) for one in (g, d)]
    gan = ganexp.GAN(g, d, loss(), *optimizers, ganexp.Prior(4), batch_size=8)
    return gan, (ganexp.Batch(torch.randn(8, 2)) for _ in itertools.count())


def watched(strategy, iterations=3, setting=None, own=None, begin=0, **steps):
    gan, reals = gan_and_reals(**setting or {})
    strategy = copy.deepcopy(strategy)  # some remember what they did
    iteration = partial(strategy, gan, reals, **{"d_steps": 1, "g_steps": 1, **steps})
    for _ in range(begin):
        iteration()
    with ganexp.watch(gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d, strategies=own or {}) as report:
        for _ in range(iterations):
            iteration()
    return report
