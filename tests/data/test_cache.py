"""The cache of decoded sets: one process decodes, once; what is wrong is made anew, what cannot be kept is done without."""

import io
import logging
import logging.handlers
import multiprocessing
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp.data import Dataset, ImageFolder, decoding, default_folder, load_cached
from ganexp.data.cache import lock
from tests.data.samples import folder_of_images, noise
from tests.full import on_a_full_disk
from tests.processes import joined


@pytest.mark.parametrize("workers", [0, 1])
def test_images_are_decoded_once_into_the_cache(workers, tmp_path, monkeypatch):
    dataset = folder_of_images(tmp_path / "images")
    expected = torch.stack([dataset.load()[i] for i in range(5)])
    decoded = load_cached(dataset, tmp_path / "cache", workers=workers)
    assert torch.equal(decoded, expected)
    (file,) = (tmp_path / "cache").glob("*.npy")
    np.testing.assert_array_equal(np.load(file), expected.numpy())
    monkeypatch.setattr(ImageFolder, "load", lambda self: pytest.fail("read again"))
    assert torch.equal(load_cached(dataset, tmp_path / "cache"), expected)
    assert torch.equal(load_cached(dataset, tmp_path / "cache", place="streamed"), expected)


def broken_arrays():
    yield b""
    yield b"not an array"
    for array in [noise(0, 3, 8, 8), noise(1, 3, 8, 8), noise(5, 3, 8, 9), noise(5, 3, 8, 8).astype(float), np.uint8(1)]:
        file = io.BytesIO()
        np.save(file, array)
        yield file.getvalue()
    yield file.getvalue()[:-1]


def test_a_file_that_is_broken_or_of_another_shape_is_made_anew(tmp_path):
    dataset, cache = folder_of_images(tmp_path / "images"), tmp_path / "cache"
    first = load_cached(dataset, cache).clone()  # not a map of the file that is about to break
    (file,) = cache.glob("*.npy")
    for content in [*broken_arrays(), file.read_bytes()[:-100]]:
        file.unlink()  # else the map of the one before would be cut off under the reader's feet
        file.write_bytes(content)
        assert torch.equal(load_cached(dataset, cache), first)
        np.testing.assert_array_equal(np.load(file), first.numpy())


def test_a_set_that_has_changed_is_decoded_anew(tmp_path):
    dataset, cache = folder_of_images(tmp_path / "images"), tmp_path / "cache"
    assert len(load_cached(dataset, cache)) == 5
    assert load_cached(ImageFolder(str(tmp_path / "images"), image_size=4), cache).shape[-1] == 4
    (tmp_path / "images" / "2.png").unlink()
    assert len(load_cached(ImageFolder(str(tmp_path / "images"), image_size=8), cache)) == 4


def test_images_of_equal_names_sizes_and_times_are_told_apart(tmp_path, monkeypatch):
    def decoded(name, colour):
        (tmp_path / name).mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), colour).save(tmp_path / name / "0.bmp")
        os.utime(tmp_path / name / "0.bmp", ns=(10**18, 10**18))
        return load_cached(ImageFolder(str(tmp_path / name), image_size=8), tmp_path / "cache")[0, :, 0, 0].tolist()

    assert decoded("cats", "red") == [255, 0, 0]
    time.sleep(0.02)  # a file system's clock ticks every few milliseconds
    assert decoded("cats", "blue") == [0, 0, 255]  # changed in place
    monkeypatch.setattr("ganexp.data.folder.stamp", lambda path: (path.stat().st_size, 0, 0))
    assert [decoded("cats", "red"), decoded("dogs", "lime")] == [[255, 0, 0], [0, 255, 0]]  # in two folders


class Floats(Dataset):
    """Floats of somebody who has defined a fingerprint."""

    def __init__(self, samples):
        self.samples, self.shape = samples, tuple(samples[0].shape)

    def load(self):
        return self.samples

    def fingerprint(self):
        return "mine"


def test_points_with_a_fingerprint_are_not_taken_for_bytes(tmp_path):
    points = torch.randn(9, 2)
    for _ in range(2):
        assert torch.equal(load_cached(Floats(points), tmp_path), points)


def test_images_of_floats_cannot_be_kept_as_bytes(tmp_path):
    with pytest.raises(OSError, match=r"^images that are kept should be uint8, and these are float32"):
        load_cached(Floats([torch.full((1, 4, 4), 0.5)] * 9), tmp_path)
    assert not list(tmp_path.glob("*.npy"))


def test_what_should_stream_is_not_decoded(tmp_path, monkeypatch):
    dataset = folder_of_images(tmp_path / "images")
    assert not isinstance(load_cached(dataset, tmp_path / "cache", place="streamed"), torch.Tensor)
    monkeypatch.setattr("ganexp.data.placement.free_memory", lambda device: 100)
    assert not isinstance(load_cached(dataset, tmp_path / "cache"), torch.Tensor)
    assert not list((tmp_path / "cache").glob("*"))
    assert isinstance(load_cached(dataset, tmp_path / "cache", place="resident"), torch.Tensor)


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    dataset = folder_of_images(tmp_path / "images")
    expected = torch.stack([dataset.load()[i] for i in range(5)])
    (tmp_path / "file").write_text("in the way")
    assert torch.equal(load_cached(dataset, tmp_path / "file" / "cache"), expected)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("usage", (), {"free": 10}))
    assert torch.equal(load_cached(dataset, tmp_path / "cache"), expected)
    assert not list((tmp_path / "cache").glob("*.npy"))


def decode(dataset, cache):
    log = logging.getLogger("ganexp")
    log.addHandler(handler := logging.handlers.BufferingHandler(9))
    images = load_cached(dataset, cache)
    return images.numpy().tobytes(), [record.getMessage() for record in handler.buffer]


def test_a_disk_that_fills_while_decoding_is_done_without(tmp_path):
    dataset, cache = folder_of_images(tmp_path / "images", n=40), tmp_path / "cache"  # 7,680 bytes
    sentences = [f"The decoded images are not kept in {cache} (File too large)."]
    expected = torch.stack(list(dataset.load())).numpy().tobytes()
    assert on_a_full_disk(decode, dataset, cache, room=4096) == repr((expected, sentences))
    assert {path.suffix for path in cache.iterdir()} <= {".lock"}


def test_what_killed_processes_have_left_is_deleted_and_what_is_being_written_is_not(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "killed.unfinished").write_bytes(b"half")
    (cache / "busy.unfinished").write_bytes(b"half")
    (cache / ".x.corrupt.json.7.unfinished").write_bytes(b"of a running process")
    with lock(cache, "busy"):
        load_cached(folder_of_images(tmp_path / "images"), cache)
        assert sorted(path.name for path in cache.glob("*.unfinished")) == [".x.corrupt.json.7.unfinished", "busy.unfinished"]


def test_the_sets_unused_for_longest_make_room_and_the_size_is_logged(tmp_path, monkeypatch, caplog):
    cache, sizes = tmp_path / "cache", [4, 5, 6]
    folder_of_images(tmp_path / "images")

    def decoded(size):
        return load_cached(ImageFolder(str(tmp_path / "images"), image_size=size), cache)

    def there():
        return sorted(np.load(path).shape[-1] for path in cache.glob("*.npy"))

    for age, size in zip([30, 20, 10], sizes, strict=True):
        decoded(size)
        for path in cache.glob("*.npy"):
            if np.load(path).shape[-1] == size:
                os.utime(path, (time.time() - age, time.time() - age))
    mapped = decoded(4)  # now the one used last
    monkeypatch.setattr("ganexp.data.cache.BOUND", sum(128 + 5 * 3 * size**2 for size in (4, 6)))
    with caplog.at_level("INFO"):
        decoded(7)
    assert there() == [4, 6, 7]
    assert f"are kept in {cache}: 0.0 MiB, of 0.0 MiB there" in caplog.text
    assert "is deleted: it was unused for longest" in caplog.text
    monkeypatch.setattr("ganexp.data.cache.BOUND", 0)
    before = mapped.clone()
    decoded(8)
    assert there() == [8]  # the newest stays, however large
    assert torch.equal(mapped, before)  # a set that a run has mapped can be read to the end


def test_the_cache_lies_in_the_users_cache_folder(monkeypatch):
    monkeypatch.delenv("GANEXP_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_folder() == Path.home() / ".cache" / "ganexp" / "decoded"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_folder() == Path("/caches/ganexp/decoded")
    monkeypatch.setenv("GANEXP_CACHE", "/scratch")
    assert default_folder() == Path("/scratch/decoded")


def decode_and_count(images, cache, decoded):
    original = decoding.ImageFiles.__getitem__

    def counting(self, index):
        with decoded.get_lock():
            decoded.value += 1
        return original(self, index)

    decoding.ImageFiles.__getitem__ = counting
    assert len(load_cached(ImageFolder(str(images), image_size=8), cache)) == 40


def test_of_jobs_that_start_at_once_one_decodes(tmp_path):
    folder_of_images(tmp_path / "images", n=40)
    context = multiprocessing.get_context("fork")
    decoded = context.Value("i", 0)
    jobs = [context.Process(target=decode_and_count, args=(tmp_path / "images", tmp_path / "cache", decoded)) for _ in range(3)]
    for job in jobs:
        job.start()
    assert joined(*jobs) == [0, 0, 0]
    assert decoded.value == 40
