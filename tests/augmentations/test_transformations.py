"""ADA's transformations at given parameters: against NumPy, SciPy and matrices of the paper."""

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates
from scipy.spatial.transform import Rotation

from ganexp.augmentations.colors import recolored
from ganexp.augmentations.pixels import positions, shifted, turned, warped
from tests.augmentations.images import images

N = 12


def drawn(low, high, seed, *, integer=False):
    rng = np.random.default_rng(seed)
    values = rng.integers(low, high + 1, N) if integer else rng.uniform(low, high, N)
    return values, torch.from_numpy(values).view(N, 1, 1, 1)


@pytest.mark.parametrize("channels", [1, 3])
def test_right_angles_are_numpys(channels):
    x = images(N, channels)
    counts, quarters = drawn(0, 3, 0, integer=True)
    expected = np.stack([np.rot90(image, count, (1, 2)) for image, count in zip(x.numpy(), counts, strict=True)])
    assert set(counts) == {0, 1, 2, 3}
    np.testing.assert_array_equal(turned(x, quarters).numpy(), expected)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (5, 9)])
def test_shifts_are_crops_of_numpys_mirrored_images(height, width):
    x, most = images(N, 3, height, width), 4
    (downs, down), (rights, right) = drawn(-most, most, 0, integer=True), drawn(-most, most, 1, integer=True)
    expected = [
        np.pad(image, [(0, 0), (most, most), (most, most)], mode="reflect")[
            :, most - d : most - d + height, most - r : most - r + width
        ]
        for image, d, r in zip(x.numpy(), downs, rights, strict=True)
    ]
    np.testing.assert_array_equal(shifted(x, down, right).numpy(), np.stack(expected))


def test_warped_images_are_scipys():
    """The inverse of a product of matrices, and SciPy's bilinear interpolation of a mirrored image."""
    x = images(N, 3, 9, 9)
    ranges = [(0.4, 2), (-3, 3), (0.5, 2), (-3, 3), (-12, 12), (-12, 12)]
    values, tensors = zip(*(drawn(low, high, seed) for seed, (low, high) in enumerate(ranges)), strict=True)
    made = warped(x, *positions(x, *tensors)).numpy()
    grid = np.stack(np.meshgrid(np.arange(9.0), np.arange(9.0), indexing="ij")).reshape(2, -1) - 4
    for i, (scale, before, stretch, after, down, right) in enumerate(np.stack(values, 1)):
        first, second = (np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]) for a in (before, after))
        forward = second @ np.diag([1 / stretch, stretch]) @ first * scale  # of (row, column)
        source = np.linalg.inv(forward) @ (grid - np.array([[down], [right]])) + 4
        expected = [map_coordinates(channel, source, order=1, mode="mirror").reshape(9, 9) for channel in x[i].numpy()]
        np.testing.assert_allclose(made[i], np.stack(expected), rtol=1e-9, atol=1e-9)


def matrix(brightness, contrast, luma, hue, saturation):
    """Return the paper's product of 4×4 matrices, of homogeneous colours (appendix B)."""
    axis = np.full(3, 3**-0.5)
    along = np.pad(np.outer(axis, axis), (0, 1))
    shift = np.eye(4)
    shift[:3, 3] = brightness
    gain = np.diag([contrast] * 3 + [1])
    flip = np.eye(4) - (1 - luma) * along
    rotation = np.eye(4)
    rotation[:3, :3] = Rotation.from_rotvec(hue * axis).as_matrix()
    return (along + (np.eye(4) - along) * saturation + np.diag([0, 0, 0, 1 - saturation])) @ rotation @ flip @ gain @ shift


@pytest.mark.parametrize("channels", [1, 3])
def test_colours_are_those_of_the_papers_matrices(channels):
    x = images(N, channels)
    ranges = [(-0.5, 0.5), (0.5, 2), (0, 1), (-3, 3), (0.2, 3)]
    values, tensors = zip(*(drawn(low, high, seed, integer=seed == 2) for seed, (low, high) in enumerate(ranges)), strict=True)
    values, tensors = list(values), list(tensors)
    values[2], tensors[2] = 1 - 2 * values[2], 1 - 2 * tensors[2]
    assert set(values[2]) == {-1, 1}
    made = recolored(x, *tensors).numpy()
    for i, conditions in enumerate(np.stack(values, 1)):
        whole = np.concatenate([np.broadcast_to(x[i].numpy(), (3, 8, 8)), np.ones((1, 8, 8))])
        expected = np.einsum("ij,jhw->ihw", matrix(*conditions), whole)[:channels]
        np.testing.assert_allclose(made[i], expected, rtol=1e-9, atol=1e-9)
