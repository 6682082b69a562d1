"""Images that are to be measured are taken as they are, or refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp.data.unscaled import images_in
from tests.data.samples import zipped


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


@pytest.mark.parametrize("place", [Path, zipped])
def test_another_size_is_refused(tmp_path, place):
    folder = write(write(tmp_path / "images"), n=1, size=(8, 9))
    with pytest.raises(ValueError, match=r"0\.png has 8×9 pixels, and the data 8×8"):
        images_in(place(folder), (3, 8, 8))


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_images_have_the_size_that_they_are_turned_to(name, tmp_path, caplog):
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    pixels = Image.fromarray(np.random.default_rng(0).integers(0, 255, (8, 16, 3), np.uint8))
    (tmp_path / "images").mkdir()
    pixels.save(tmp_path / "images" / name, exif=exif)
    (tmp_path / "images" / "samples.json").touch()
    (turned,) = images_in(tmp_path / "images", (3, 16, 8))
    assert np.array_equal(turned.permute(1, 2, 0).numpy(), np.rot90(np.asarray(pixels), -1))
    assert caplog.text.count("1 skipped (1 .json)") == 1
    with pytest.raises(ValueError, match=rf"{name} has 8×16 pixels, and the data 16×8"):
        images_in(tmp_path / "images", (3, 8, 16))


@pytest.mark.parametrize("place", [Path, zipped])
def test_what_cannot_be_decoded_is_left_out_and_named(tmp_path, place, caplog):
    folder = write(tmp_path / "images")
    (folder / "x.png").write_bytes(b"no image")
    (folder / "2.png").write_bytes((folder / "2.png").read_bytes()[:-80])  # whose header is whole
    data = images_in(place(folder), (3, 8, 8))
    whole = [np.random.default_rng(i).integers(0, 255, (8, 8, 3), np.uint8) for i in (0, 1, 3, 4, 5)]
    assert np.array_equal(torch.stack([data[i] for i in range(len(data))]).permute(0, 2, 3, 1).numpy(), np.stack(whole))
    assert "2 of 7 images are skipped: " in caplog.text
    assert len(images_in(place(folder), (3, 8, 8), 4)) == 4


def test_a_member_of_an_archive_that_does_not_match_its_checksum_is_left_out(tmp_path, caplog):
    place = zipped(write(tmp_path / "images", n=3))
    content = bytearray(place.read_bytes())
    content[content.index(b"IDAT") + 20] ^= 255
    place.write_bytes(content)
    assert len(images_in(place, (3, 8, 8))) == 2
    assert "1 of 3 images are skipped: " in caplog.text


def test_a_folder_without_an_image_is_refused(tmp_path):
    (write(tmp_path / "broken", n=0) / "x.png").write_bytes(b"no image")
    with pytest.raises(OSError, match=r"none of the images in .*broken can be decoded: "):
        images_in(tmp_path / "broken", (3, 8, 8))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds none of \.jpg"):
        images_in(tmp_path / "empty", (3, 8, 8))
    with pytest.raises(ValueError, match=r"does not compare with data of shape \(2,\)$"):
        images_in(tmp_path / "images", (2,))
