"""Sets that are computed, and the digits that come with scikit-learn."""

import numpy as np
import pytest
import torch

from ganexp.data import Digits, Fake, Grid, Ring


def test_digits_are_the_originals_when_they_are_not_scaled():
    from sklearn.datasets import load_digits

    small = Digits(image_size=8).load()
    np.testing.assert_array_equal(small.squeeze(1).numpy(), np.round(load_digits().images * 255 / 16))
    large = Digits().load()
    assert large.shape == (1797, 1, 32, 32)
    assert large.min() == 0
    assert large.max() == 255


def test_upscaled_digits_are_sharp_and_average_to_the_originals():
    small, large = (Digits(image_size=size).load().float() / 255 for size in (8, 32))
    averaged = torch.nn.functional.avg_pool2d(large, 4)  # as the originals were made, from bitmaps of 32×32
    assert (averaged - small).square().mean().sqrt() < 0.055  # bicubic interpolation alone: 0.063
    assert ((large > 0.1) & (large < 0.9)).float().mean() < 0.25  # bicubic interpolation alone: 0.43


@pytest.mark.parametrize("mixture", [Ring(n=20_000), Ring(modes=3, radius=2.0, std=0.1, n=20_000), Grid(n=20_000)])
def test_mixtures_have_the_modes_and_the_spread_that_they_name(mixture):
    points = mixture.load()
    distance, nearest = torch.cdist(points, mixture.centers).min(1)
    counts = torch.bincount(nearest, minlength=len(mixture.centers)).double() / len(points)
    assert (counts - 1 / len(counts)).abs().max() < 0.02
    # The squared distance to the centre of an isotropic Gaussian in the plane has mean 2σ².
    assert distance.square().mean().item() == pytest.approx(2 * mixture.std**2, rel=0.05)
    assert torch.equal(points, mixture.load())


def test_ring_and_grid_lie_where_the_literature_puts_them():
    ring, grid = Ring().centers, Grid().centers
    assert ring.shape == (8, 2)
    torch.testing.assert_close(ring.norm(dim=1), torch.ones(8))
    assert sorted(grid[:, 0].unique().tolist()) == [-4, -2, 0, 2, 4]
    assert len(grid) == 25


def test_fake_has_any_size():
    images = Fake(image_size=48, channels=5, n=7)
    assert images.load().shape == (7, *images.shape) == (7, 5, 48, 48)
