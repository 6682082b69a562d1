"""Images that are to be measured are taken as they are, or refused."""

import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp.data.unscaled import images_in


def write(folder, n=6, size=(8, 8)):
    folder.mkdir(exist_ok=True)
    for i in range(n):
        pixels = np.random.default_rng(i).integers(0, 255, (*size[::-1], 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    return folder


def test_pixels_are_those_of_the_files(tmp_path):
    data = images_in(write(tmp_path / "images"), (3, 8, 8))
    expected = np.random.default_rng(2).integers(0, 255, (8, 8, 3), np.uint8)
    assert len(data) == 6
    assert np.array_equal(data[2].permute(1, 2, 0).numpy(), expected)
    assert images_in(tmp_path / "images", (1, 8, 8))[0].shape == (1, 8, 8)


def test_some_are_drawn_always_the_same_ones(tmp_path):
    first, again = (images_in(write(tmp_path / "images"), (3, 8, 8), 4) for _ in range(2))
    assert len(first) == 4
    assert all(torch.equal(first[i], again[i]) for i in range(4))
    assert len({first[i].numpy().tobytes() for i in range(4)}) == 4


@pytest.mark.parametrize("archived", [False, True])
def test_another_size_is_refused(tmp_path, archived):
    folder = write(write(tmp_path / "images"), n=1, size=(8, 9))
    place = tmp_path / "images.zip"
    with zipfile.ZipFile(place, "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    with pytest.raises(ValueError, match=r"0\.png has 8×9 pixels, and the data 8×8: scale the images yourself"):
        images_in(place if archived else folder, (3, 8, 8))


def test_what_is_no_image_is_refused(tmp_path):
    (write(tmp_path / "images") / "x.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"x\.png cannot be decoded as an image$"):
        images_in(tmp_path / "images", (3, 8, 8))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds none of \.jpg"):
        images_in(tmp_path / "empty", (3, 8, 8))
    with pytest.raises(ValueError, match=r"does not compare with data of shape \(2,\)$"):
        images_in(tmp_path / "images", (2,))
