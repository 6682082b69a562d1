"""Folders of images: what is found, and what is skipped."""

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp.data import ImageFolder
from tests.data.samples import noise


def test_image_folder_takes_images_at_any_depth_and_crops_the_centre(tmp_path):
    wide = np.zeros((16, 32, 3), np.uint8)
    wide[:, 8:24] = (255, 0, 0)
    (tmp_path / "a" / "b").mkdir(parents=True)
    Image.fromarray(wide).save(tmp_path / "a" / "b" / "wide.png")
    Image.fromarray(noise(20, 20, 3)).save(tmp_path / "top.JPG", format="JPEG")
    (tmp_path / "notes.txt").write_text("not an image")
    dataset = ImageFolder(str(tmp_path), image_size=16)
    data = dataset.load()
    assert dataset.shape == (3, 16, 16)
    assert len(data) == 2
    assert data[0].dtype == torch.uint8
    assert torch.equal(data[0][0], torch.full((16, 16), 255, dtype=torch.uint8))
    assert data[0][1:].max() == 0
    assert ImageFolder(str(tmp_path), channels=1).load()[0].shape == (1, 64, 64)


def test_an_image_that_cannot_be_decoded_is_named(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"not a png")
    with pytest.raises(OSError, match=r"broken\.png cannot be decoded"):
        ImageFolder(str(tmp_path)).load()[0]


def test_a_folder_that_is_none_or_empty_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^path must be a folder of images"):
        ImageFolder(str(tmp_path / "missing"))
    with pytest.raises(ValueError, match="holds none of"):
        ImageFolder(str(tmp_path))
