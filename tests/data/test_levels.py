"""What is black and white in images of more than eight bits: one range for a set, and for what is compared with it."""

import numpy as np
import pytest
import torch
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from ganexp.data import Hub, ImageFolder, Pairs, Separated, Unpaired, load_cached
from ganexp.data.unscaled import images_in
from ganexp.sampling.translating import Pictures
from tests.data.samples import zipped


def ramp(last, kind=np.float32, first=0.0):
    return np.linspace(first, last, 64).reshape(8, 8).astype(kind)


def write(folder, images, name="{}.tif"):
    folder.mkdir(parents=True, exist_ok=True)
    for i, pixels in enumerate(images):
        Image.fromarray(pixels).save(folder / name.format(i))
    return folder


def grey(path, **settings):
    return ImageFolder(str(path), image_size=8, channels=1, **settings)


def assert_scaled(data, images, black, white):
    for image, pixels in zip(data, images, strict=True):
        np.testing.assert_allclose(image[0].numpy(), (pixels.astype(float) - black) * 255 / (white - black), atol=0.501)


@pytest.mark.parametrize(
    ("lasts", "kind", "white"),
    [
        ((200.0, 0.9, 3.0), np.float32, 255),  # one is as dark as images in [0, 1] are bright
        ((0.4, 1.0), np.float32, 1),
        ((4000, 200), np.uint16, 4095),
        ((4000.5, 200), np.float32, 4095),
        ((60_000, 200), np.uint16, 65535),
        ((1000, 200), np.int32, 1023),
    ],
)
@pytest.mark.parametrize("place", [str, zipped])
def test_one_white_is_found_for_a_set_and_said(lasts, kind, white, place, tmp_path, caplog):
    images = [ramp(last, kind) for last in lasts]
    dataset = grey(place(write(tmp_path / "images", images)))
    assert_scaled(list(dataset.load()), images, 0, white)
    assert_scaled(load_cached(dataset, tmp_path / "cache"), images, 0, white)
    (sentence,) = [record.getMessage() for record in caplog.records]
    assert f"dataset.range=[0,{white}]" in sentence


@pytest.mark.parametrize(("kind", "value_range"), [(np.uint16, (0, 4000)), (np.float32, (-1000.0, 3000.0))])
def test_a_range_may_be_declared(kind, value_range, tmp_path, caplog):
    images = [ramp(value_range[1], kind, value_range[0]), ramp(5, kind)]
    dataset = grey(write(tmp_path / "images", images), range=value_range)
    assert_scaled(list(dataset.load()), images, *value_range)
    assert not caplog.records
    other = grey(tmp_path / "images", range=(value_range[0], 3 * value_range[1]))
    assert not torch.equal(*(load_cached(data_set, tmp_path / "cache") for data_set in (dataset, other)))


def test_what_exceeds_the_range_is_left_out_with_the_reason(tmp_path, caplog):
    folder = write(tmp_path / "images", [ramp(4000, np.uint16), ramp(100, np.uint16)])
    assert len(load_cached(grey(folder, range=(0, 1000)), tmp_path / "cache")) == 1
    assert "in [0, 4000]" in caplog.text
    with pytest.raises(OSError, match=r"in \[0, 4000\].*dataset\.range="):
        load_cached(grey(folder, range=(0, 1000), strict=True), tmp_path / "cache")
    below = write(tmp_path / "below", [ramp(1.0, first=-1.0)])
    with pytest.raises(OSError, match=r"in \[-1, 1\].*dataset\.range="):
        load_cached(grey(below), tmp_path / "cache")
    with pytest.raises(ValueError, match=r"^range should"):
        grey(folder, range=(1, 1))


def test_images_of_eight_bits_stay_as_they_are_and_are_told_apart(tmp_path, caplog):
    eight = ramp(255, np.uint8)
    for value_range, remark in ((None, "different kinds"), ((0, 100), "different kinds"), ((0, 1), "changes nothing")):
        folder = write(tmp_path / remark, [eight] if remark == "changes nothing" else [eight, ramp(100, np.uint16)])
        caplog.clear()
        np.testing.assert_array_equal(grey(folder, range=value_range).load()[0][0].numpy(), eight)
        assert remark in caplog.text


def test_nothing_is_decoded_without_need(tmp_path, monkeypatch):
    folders = [write(tmp_path / str(i), [ramp(last, np.uint16)] * 3) for i, last in enumerate((65535, 100, 100))]
    decoded, load = [], TiffImageFile.load
    for folder, declared, count in zip(folders, (None, (0, 100), None), (1, 0, 3), strict=True):
        decoded.clear()
        with monkeypatch.context() as patched:
            patched.setattr(TiffImageFile, "load", lambda self: (decoded.append(self), load(self))[1])
            dataset = grey(folder, range=declared)
            dataset.load()
            assert dataset.value_range
        assert len({*map(id, decoded)}) == count


def test_held_out_images_have_the_range_of_those_trained_on(tmp_path):
    trained, others = [ramp(4000, np.uint16)], [ramp(100, np.uint16)]
    write(tmp_path / "train", trained)
    write(tmp_path / "test", others)
    assert_scaled(list(grey(tmp_path).held_out().load()), others, 0, 4095)
    for name, images in (("trainA", trained), ("testA", others), ("trainB", [ramp(60_000, np.uint16)]), ("testB", others)):
        write(tmp_path / "two" / name, images)
    dataset = Unpaired(path=str(tmp_path / "two"), image_size=8, channels=1)
    assert dataset.source_ranges == ((0, 4095), (0, 65535))
    (stack,) = dataset.held_out().load()
    assert_scaled([stack[:1]], others, 0, 4095)
    assert_scaled([stack[1:]], others, 0, 65535)


def test_sources_and_targets_each_have_a_range(tmp_path):
    depths, photographs = [ramp(3000, np.uint16), ramp(70, np.uint16)], [ramp(255, np.uint8), ramp(9, np.uint8)]
    settings = {"image_size": 8, "channels": 1, "source_channels": 1}
    places = {"sources": str(write(tmp_path / "a", depths)), "targets": str(write(tmp_path / "b", photographs))}
    for declared, levels in (({}, (0, 4095)), ({"source_range": (0, 3000)}, (0, 3000))):
        dataset = Pairs(**places, **settings, **declared)
        pair = torch.stack(list(dataset.load()))
        assert_scaled(pair[:, :1], depths, *levels)
        np.testing.assert_array_equal(pair[:, 1].numpy(), photographs)
        assert (dataset.source_ranges, dataset.value_range) == ((levels,), None)
        assert Separated(of=dataset).source_ranges == (levels, None)


def test_so_do_tables_of_images(tmp_path):
    pytest.importorskip("datasets")
    images = [ramp(4000, np.uint16), ramp(100, np.uint16)]
    folder = write(tmp_path / "images", images, "{}.png")
    for declared, white in ((None, 4095), ((0, 8000), 8000)):
        dataset = Hub(str(folder), image_size=8, channels=1, range=declared)
        assert_scaled(list(dataset.load()), images, 0, white)


def test_what_is_compared_or_translated_has_the_range_of_the_data(tmp_path):
    data = grey(write(tmp_path / "data", [ramp(4000, np.uint16)]))
    others = [ramp(100, np.uint16)]
    folder = write(tmp_path / "others", others)
    assert_scaled(list(images_in(folder, (1, 8, 8), like=data)), others, 0, 4095)
    assert_scaled(list(images_in(folder, (1, 8, 8))), others, 0, 255)
    assert_scaled([pixels for _, pixels in Pictures(folder, 1, value_range=(0, 4095))], others, 0, 4095)
    assert_scaled([pixels for _, pixels in Pictures(folder, 1)], others, 0, 255)
