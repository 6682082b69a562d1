"""Stacked MNIST: every channel is a digit, and the mode names them."""

import numpy as np
import pytest
import torch

from ganexp.data import StackedMNIST, load_cached
from tests.data.torchvision_sets import write_idx

LABELS = [3, 0, 9, 3, 7]


@pytest.fixture
def root(tmp_path):
    """Five images, each of one shade."""
    write_idx(tmp_path / "MNIST" / "raw", np.arange(5, dtype=np.uint8).repeat(28 * 28).reshape(5, 28, 28), LABELS)
    return str(tmp_path)


def test_the_mode_of_an_image_is_the_number_that_its_channels_make(root):
    stacked = StackedMNIST(root, image_size=28, n=500)
    images = stacked.load()
    assert images.shape == (500, 3, 28, 28)
    assert images.dtype == torch.uint8
    assert torch.equal(images.amin((2, 3)), images.amax((2, 3)))  # a channel is one digit
    digits = np.array(LABELS)[images[:, :, 0, 0].numpy()]
    expected = [int("".join(map(str, three))) for three in digits]
    assert stacked.labels().tolist() == expected
    assert (stacked.labels().dtype, stacked.classes) == (torch.int64, 1000)
    shares = np.bincount(images[:, :, 0, 0].flatten(), minlength=5) / 1500
    np.testing.assert_allclose(shares, 0.2, atol=0.05)  # of independent draws, five standard deviations
    assert len(set(map(tuple, images[:, :, 0, 0].tolist()))) > 110  # nearly all of the 125 there are


def test_the_seed_says_which_images_they_are(root, tmp_path):
    first, same, other = (StackedMNIST(root, n=50, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.load(), same.load())
    assert first.digest() == same.digest() != other.digest()
    assert not torch.equal(load_cached(first, tmp_path / "cache"), load_cached(other, tmp_path / "cache"))
    assert torch.equal(StackedMNIST(root, n=50, seed=1).load(), load_cached(first, tmp_path / "cache"))
