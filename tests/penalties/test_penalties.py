"""Penalties and constraints against closed forms."""

import numpy as np
import pytest
import torch
from torch import nn

from ganexp.batch import Batch
from ganexp.penalties import GradientPenalty, WeightClipping


def test_gradient_penalty_looks_between_real_and_fake():
    seen = []

    def discriminator(images):
        seen.append(images.detach())
        return images.sum((1, 2, 3))

    x, fake = torch.zeros(500, 1, 2, 2), torch.ones(500, 1, 2, 2)
    GradientPenalty()(discriminator, Batch(x), Batch(fake))
    share = seen[0].flatten(1)
    assert torch.equal(share, share[:, :1].expand(-1, 4))  # one share per image
    assert share.min() >= 0
    assert share.max() <= 1
    assert abs(share.mean() - 0.5) < 0.05
    assert share[:, 0].unique().numel() > 450


def test_weight_clipping_clips_every_parameter_and_nothing_else():
    network = nn.Linear(3, 3).double()
    before = [p.detach().clone() for p in network.parameters()]
    WeightClipping(bound=0.1).constrain(network)
    for p, old in zip(network.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), np.clip(old.numpy(), -0.1, 0.1))
    assert WeightClipping()(network, Batch(torch.zeros(1)), Batch(torch.zeros(1))) is None


def test_frozen_weights_are_not_clipped():
    discriminator = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    discriminator[0].requires_grad_(False).weight.fill_(5.0)
    discriminator[1].weight.data.fill_(5.0)
    WeightClipping(bound=0.1).constrain(discriminator)
    assert discriminator[0].weight.unique().item() == 5.0
    assert discriminator[1].weight.unique().item() == pytest.approx(0.1)
