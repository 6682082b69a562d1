"""Networks that are easily disturbed: partly in evaluation mode, or drawing from every global stream."""

import random

import numpy as np
import torch
from torch import nn
from torch.nn.functional import dropout


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


def seeded():
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
