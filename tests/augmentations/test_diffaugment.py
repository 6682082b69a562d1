"""DiffAugment's transformations against NumPy's, image by image, and the ranges that are published."""

import numpy as np
import pytest
import torch

from ganexp.augmentations import DiffAugment
from ganexp.streams import stream
from tests.augmentations.images import begun, images

POLICIES = ["color", "translation", "cutout"]
SIZES = [(3, 8, 8), (1, 7, 10), (3, 5, 4)]


def drawn(n, count):
    """Return the numbers from [0, 1) that an augmentation of seed 0 draws for n images, `(count, n)`."""
    rng = stream(0, "augmentation")
    return np.stack([torch.empty(n, dtype=torch.float64).uniform_(generator=rng).numpy() for _ in range(count)])


def color(x, draws):
    brightness, saturation, contrast = draws
    x = x + brightness - 0.5
    mean = x.mean(axis=0, keepdims=True)
    x = (x - mean) * (saturation * 2) + mean
    return (x - x.mean()) * (contrast + 0.5) + x.mean()


def translation(x, draws):
    most = [int(side / 8 + 0.5) for side in x.shape[1:]]
    down, right = (int(np.floor(u * (2 * k + 1))) - k for u, k in zip(draws, most, strict=True))
    padded = np.pad(x, [(0, 0), *((k, k) for k in most)])
    return padded[:, most[0] - down :, most[1] - right :][:, : x.shape[1], : x.shape[2]]


def cutout(x, draws):
    x, box = x.copy(), []
    for u, side in zip(draws, x.shape[1:], strict=True):
        size = int(side / 2 + 0.5)
        first = int(np.floor(u * (side + 1 - size % 2))) - size // 2
        box.append(slice(max(first, 0), max(first + size, 0)))
    x[:, box[0], box[1]] = 0
    return x


NUMPY = {"color": (color, 3), "translation": (translation, 2), "cutout": (cutout, 2)}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", [*([one] for one in POLICIES), POLICIES, POLICIES[::-1]])
def test_images_are_transformed_as_numpy_would(policy, size):
    x = images(30, *size)
    expected, draws = x.numpy(), drawn(30, sum(NUMPY[one][1] for one in policy))
    for one in policy:
        function, count = NUMPY[one]
        expected = np.stack([function(image, draws[:count, i]) for i, image in enumerate(expected)])
        draws = draws[count:]
    made = begun(DiffAugment(policy=policy)).transform(x).numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-12, atol=1e-13)
    assert not np.array_equal(made, x.numpy())


def test_translations_reach_an_eighth_of_each_side_and_are_equally_likely():
    x = torch.zeros(9000, 1, 16, 24, dtype=torch.float64)
    x[:, :, 8, 12] = 1
    made = begun(DiffAugment(policy=["translation"])).transform(x)
    rows, columns = made.sum((1, 3)).argmax(1) - 8, made.sum((1, 2)).argmax(1) - 12
    counts = torch.zeros(5, 7).index_put((rows + 2, columns + 3), torch.ones(()), accumulate=True)
    assert counts.sum() == 9000
    chi_square = ((counts - 9000 / 35).square() / (9000 / 35)).sum()
    assert chi_square < 65  # of 34 degrees of freedom: p = 0.001


def test_a_quarter_of_a_large_image_is_cut_out_unless_it_lies_at_the_edge():
    cut = (begun(DiffAugment(policy=["cutout"])).transform(torch.ones(4000, 1, 32, 32)) == 0).flatten(1).float().mean(1)
    assert cut.max() == 1 / 4
    assert cut.min() == 1 / 16
    expected = (np.minimum(np.arange(33) + 8, 32) - np.maximum(np.arange(33) - 8, 0)).mean() / 32
    assert cut.mean().item() == pytest.approx(expected**2, abs=0.003)
