"""One image file, against what its format says of its pixels."""

import resource

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torchvision.transforms import v2

from ganexp.data.decoding import decoded
from tests.data.samples import noise


@pytest.mark.parametrize(
    ("name", "pixels", "white"),
    [
        ("png", np.uint16, 65535),
        ("tif", np.uint16, 65535),
        ("pgm", np.uint16, 65535),
        ("tif", np.int32, 65535),
        ("tif", np.float32, 1),
        ("tif", np.float32, 255),
        ("tif", np.float32, 65535),
    ],
)
def test_deep_images_are_scaled_and_not_clipped(name, pixels, white, tmp_path):
    ramp = np.linspace(0, white, 64).reshape(8, 8)
    Image.fromarray(ramp.astype(pixels)).save(tmp_path / f"deep.{name}")
    image = decoded(tmp_path / f"deep.{name}", (1, 8, 8), value_range=(0, white))
    np.testing.assert_allclose(image[0].numpy(), ramp.astype(pixels).astype(float) * 255 / white, atol=0.5001)


@pytest.mark.parametrize("value", [-1.0, 70000.0, np.nan])
@pytest.mark.parametrize("value_range", [None, (0, 65535)])
def test_values_of_which_white_is_not_known_are_refused(value, value_range, tmp_path):
    Image.fromarray(np.full((4, 4), value, np.float32)).save(tmp_path / "odd.tif")
    with pytest.raises(OSError, match=r"odd\.tif cannot be decoded .*its pixels are in \["):
        decoded(tmp_path / "odd.tif", (3, 4, 4), value_range=value_range)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_as_their_exif_says(orientation, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(noise(6, 4, 3))
    stored.save(tmp_path / "turned.png", exif=exif)
    row, column = np.indices((6, 4))
    # Where the standard (Exif 2.32, 4.6.4) puts the stored row and column of each orientation.
    shown = {
        1: (row, column),
        2: (row, 3 - column),
        3: (5 - row, 3 - column),
        4: (5 - row, column),
        5: (column, row),
        6: (column, 5 - row),
        7: (3 - column, 5 - row),
        8: (3 - column, row),
    }[orientation]
    upright = np.zeros((4, 6, 3) if orientation > 4 else (6, 4, 3), np.uint8)
    upright[shown] = np.asarray(stored)
    Image.fromarray(upright).save(tmp_path / "upright.png")
    assert torch.equal(decoded(tmp_path / "turned.png", (3, 4, 4)), decoded(tmp_path / "upright.png", (3, 4, 4)))


def test_a_broken_exif_is_passed_over(tmp_path):
    Image.fromarray(noise(4, 4, 3)).save(tmp_path / "odd.png", exif=b"Exif\0\0MM\0*\xff\xff")
    assert torch.equal(decoded(tmp_path / "odd.png", (3, 4, 4)).permute(1, 2, 0), torch.from_numpy(noise(4, 4, 3)))


def palette(colour, transparency):
    image = Image.new("P", (4, 4), 0)
    image.putpalette([*colour, 9, 9, 9])
    image.info["transparency"] = transparency
    return image


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        (Image.new("RGBA", (4, 4), (200, 0, 0, 0)), (255, 255, 255)),
        (Image.new("RGBA", (4, 4), (200, 0, 0, 255)), (200, 0, 0)),
        (Image.new("RGBA", (4, 4), (200, 100, 0, 51)), (244, 224, 204)),  # a fifth of it, four fifths of white
        (Image.new("LA", (4, 4), (0, 51)), (204, 204, 204)),
        (palette((200, 0, 0), 0), (255, 255, 255)),
        (palette((200, 100, 0), b"\x33"), (244, 224, 204)),
        (palette((200, 0, 0), b"\xff"), (200, 0, 0)),
    ],
)
def test_what_is_transparent_shows_white(image, shown, tmp_path):
    image.save(tmp_path / "image.png")
    assert decoded(tmp_path / "image.png", (3, 4, 4))[:, 1, 1].tolist() == list(shown)


def test_so_does_the_transparent_grey_of_sixteen_bits(tmp_path):
    pixels = np.array([[1000, 1001], [30_000, 65_535]], dtype=np.uint16)
    Image.fromarray(pixels).save(tmp_path / "a.png", transparency=1000)
    assert decoded(tmp_path / "a.png", (1, 2, 2), value_range=(0, 65535)).flatten().tolist() == [255, 4, 117, 255]


def test_of_an_animation_the_first_image_is_taken(tmp_path):
    first, second = Image.new("RGB", (4, 4), "red"), Image.new("RGB", (4, 4), "blue")
    first.save(tmp_path / "moving.gif", save_all=True, append_images=[second])
    assert decoded(tmp_path / "moving.gif", (3, 4, 4))[:, 0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize(
    ("height", "width", "size"), [(30, 30, 7), (60, 17, 8), (17, 60, 8), (20, 33, 41), (250, 31, 32), (5, 5, 5)]
)
def test_the_square_is_that_of_scaling_the_whole_image_to_within_a_level(height, width, size, tmp_path):
    image = Image.fromarray(noise(height, width, 3))
    image.save(tmp_path / "image.png")
    whole = v2.CenterCrop(size)(v2.Resize(size)(image))
    for channels, expected in [(3, np.asarray(whole).transpose(2, 0, 1)), (1, np.asarray(ImageOps.grayscale(whole))[None])]:
        difference = decoded(tmp_path / "image.png", (channels, size, size)).numpy().astype(int) - expected
        assert np.abs(difference).max() <= (1 if height != width else 0)


@pytest.mark.parametrize("size", [(32, 64), (64, 16), (20, 30)])
@pytest.mark.parametrize(("height", "width"), [(100, 100), (90, 300), (301, 77), (60, 120)])
def test_the_middle_is_that_of_scaling_the_whole_image_until_it_covers_the_size(height, width, size, tmp_path):
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (height // 10 + 2, width // 10 + 2, 3), dtype=np.uint8)
    image = Image.fromarray(smooth).resize((width, height), Image.Resampling.BICUBIC)
    image.save(tmp_path / "image.png")
    scale = max(size[0] / height, size[1] / width)
    whole = v2.CenterCrop(size)(v2.Resize([max(size[0], int(height * scale)), max(size[1], int(width * scale))])(image))
    middle = decoded(tmp_path / "image.png", (3, *size))
    assert middle.shape == (3, *size)
    assert np.abs(middle.permute(1, 2, 0).numpy().astype(int) - np.asarray(whole, dtype=int)).max() <= 1


def test_an_image_of_ten_million_by_one_pixels_takes_megabytes(tmp_path):
    Image.new("L", (10**7, 1), 77).save(tmp_path / "long.png")
    assert (tmp_path / "long.png").stat().st_size < 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert torch.equal(decoded(tmp_path / "long.png", (1, 64, 64)), torch.full((1, 64, 64), 77, dtype=torch.uint8))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB; scaled whole, it would be 120 GiB
