"""Penalties and constraints against closed forms."""

import numpy as np
import pytest
import torch
from torch import nn

from ganexp.batch import Batch
from ganexp.penalties import GradientPenalty, NoPenalty, WeightClipping


class Quadratic(nn.Module):
    """Scores ½ a |x|², whose gradient is a·x."""

    def __init__(self, a):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(a, dtype=torch.float64))

    def forward(self, x):
        return 0.5 * self.a * x.flatten(1).square().sum(1)


def test_gradient_penalty_equals_its_closed_form_between_equal_points():
    x = torch.randn(5, 3, dtype=torch.float64)
    discriminator = Quadratic(0.7)
    values = GradientPenalty()(discriminator, Batch(x), Batch(x))  # every x̂ is x itself
    norms = 0.7 * np.linalg.norm(x.numpy(), axis=1)
    np.testing.assert_allclose(values.detach().numpy(), (norms - 1) ** 2, rtol=1e-12)
    (gradient,) = torch.autograd.grad(values.mean(), discriminator.a)
    by_hand = (2 * (norms - 1) * norms / 0.7).mean()
    assert gradient.item() == pytest.approx(by_hand, rel=1e-12)


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


def test_no_penalty_does_nothing():
    assert NoPenalty()(nn.Identity(), Batch(torch.zeros(1)), Batch(torch.zeros(1))) is None


@pytest.mark.parametrize("wrong", [lambda: WeightClipping(bound=0), lambda: GradientPenalty(weight=-1)])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^(bound|weight) should be"):
        wrong()


def test_unequal_batches_are_refused():
    with pytest.raises(ValueError, match="pairs real with fake"):
        GradientPenalty()(nn.Identity(), Batch(torch.zeros(2, 1)), Batch(torch.zeros(3, 1)))


def test_frozen_weights_are_not_clipped():
    discriminator = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    discriminator[0].requires_grad_(False).weight.fill_(5.0)
    discriminator[1].weight.data.fill_(5.0)
    WeightClipping(bound=0.1).constrain(discriminator)
    assert discriminator[0].weight.unique().item() == 5.0
    assert discriminator[1].weight.unique().item() == pytest.approx(0.1)
