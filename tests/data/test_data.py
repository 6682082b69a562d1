"""Datasets and feeds. Nothing here touches a network: sets are written by the tests in the originals' formats."""

import hashlib
import multiprocessing
import pickle
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import datasets

from ganexp.data import (
    CIFAR10,
    MNIST,
    Digits,
    Fake,
    FashionMNIST,
    Grid,
    ImageFolder,
    Resident,
    Ring,
    Streamed,
    feed,
    load_cached,
)
from ganexp.data.feed import index_batches, to_range
from ganexp.data.placement import is_resident


def write_idx(folder: Path, images: np.ndarray) -> None:
    folder.mkdir(parents=True)
    n, h, w = images.shape
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, n, h, w) + images.tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, n) + bytes(n))


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was touched")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(("dataset", "folder"), [(MNIST, "MNIST"), (FashionMNIST, "FashionMNIST")])
def test_a_set_that_is_there_is_used_without_the_network(dataset, folder, tmp_path, no_network):
    images = noise(12, 28, 28)
    write_idx(tmp_path / folder / "raw", images)
    native = dataset(str(tmp_path), image_size=28)
    assert native.shape == (1, 28, 28)
    np.testing.assert_array_equal(native.load().squeeze(1).numpy(), images)
    resized = dataset(str(tmp_path)).load()
    assert resized.shape == (12, 1, 32, 32)
    assert resized.dtype == torch.uint8


def test_cifar10_that_is_there_is_used_without_the_network(tmp_path, monkeypatch, no_network):
    images = noise(4, 3, 32, 32)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    batch = pickle.dumps({"data": images.reshape(4, -1), "labels": [0] * 4})
    meta = pickle.dumps({"label_names": ["thing"]})
    (folder / "data_batch_1").write_bytes(batch)
    (folder / "batches.meta").write_bytes(meta)
    monkeypatch.setattr(datasets.CIFAR10, "train_list", [["data_batch_1", hashlib.md5(batch).hexdigest()]])
    monkeypatch.setattr(datasets.CIFAR10, "test_list", [])
    monkeypatch.setitem(datasets.CIFAR10.meta, "md5", hashlib.md5(meta).hexdigest())
    monkeypatch.setitem(datasets.CIFAR10.meta, "filename", "batches.meta")
    loaded = CIFAR10(str(tmp_path)).load()
    assert loaded.is_contiguous()
    np.testing.assert_array_equal(loaded.numpy(), images)


def test_a_set_that_cannot_be_had_says_where_it_was_sought(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(OSError, match=rf"MNIST is not in {tmp_path} and could not be downloaded"):
        MNIST(str(tmp_path)).load()


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


@pytest.mark.parametrize(
    "wrong",
    [lambda: Fake(channels=0), lambda: Fake(n=0), lambda: Digits(image_size=0), lambda: Ring(std=-1), lambda: Grid(side=0)],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^\w+ must "):
        wrong()


@pytest.mark.parametrize(("n", "batch"), [(10, 3), (10, 10), (3, 10), (7, 1)])
def test_every_sample_comes_once_per_epoch_and_every_batch_is_full(n, batch):
    batches = index_batches(n, batch, seed=0, device="cpu")
    drawn = torch.cat([next(batches) for _ in range(5 * n)])
    assert len(drawn) == 5 * n * batch
    epochs = drawn[: len(drawn) // n * n].view(-1, n)
    assert torch.equal(epochs.sort(1).values, torch.arange(n).expand_as(epochs))
    if n > 3:
        assert not torch.equal(epochs[0], epochs[1])


def test_the_order_depends_on_the_seed_alone():
    def first(seed):
        return torch.cat([b for _, b in zip(range(5), index_batches(50, 8, seed, "cpu"), strict=False)])

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


class Items(torch.utils.data.Dataset):
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


@pytest.mark.parametrize("workers", [0, 1])
def test_streamed_and_resident_feeds_give_the_same_batches(workers):
    data = torch.from_numpy(noise(20, 3, 4, 4))
    resident, streamed = Resident(data, 6, seed=3), Streamed(Items(data), 6, seed=3, workers=workers)
    for _ in range(8):
        assert torch.equal(next(resident), next(streamed))


@pytest.mark.parametrize("chunk", [1, 3 * 6 * 48 * 4, 2**22])
def test_making_several_batches_at_once_changes_none_of_them(chunk, monkeypatch):
    data, order = torch.from_numpy(noise(20, 3, 4, 4)), index_batches(20, 6, 3, "cpu")
    monkeypatch.setattr(sys.modules[Resident.__module__], "CHUNK", chunk)
    resident = Resident(data, 6, seed=3)
    batches = [next(resident) for _ in range(30)]
    for batch in batches:
        assert torch.equal(batch, to_range(data[next(order)], torch.float32))
    for drawn in (1, 5, 17, 24):
        resident.seek(drawn)
        assert torch.equal(next(resident), batches[drawn])


@pytest.mark.parametrize("workers", [0, 1])
def test_flips_are_those_of_the_seed_and_the_epoch_wherever_the_data_lie(workers):
    data = torch.from_numpy(noise(10, 3, 4, 4))
    feeds = [
        Resident(data, 6, seed=3, flip=True),
        Streamed(data, 6, seed=3, flip=True, workers=workers),
        Streamed(Items(data), 6, seed=3, flip=True, workers=workers),
    ]
    plain, mirrored, seen = Resident(data, 6, seed=3), 0, []
    for _ in range(20):
        batches = [next(feed) for feed in feeds]
        assert torch.equal(batches[0], batches[1])
        assert torch.equal(batches[0], batches[2])
        for image, original in zip(batches[0], next(plain), strict=True):
            flipped = torch.equal(image, original.flip(-1))
            assert flipped or torch.equal(image, original)
            mirrored += flipped
            seen.append(flipped)
    assert 40 < mirrored < 80  # of 120
    assert seen[:10] != seen[10:20]
    feeds[0].seek(7)
    again = Resident(data, 6, seed=3, flip=True)
    for _ in range(7):
        next(again)
    assert torch.equal(next(again), next(feeds[0]))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_set_lies_on_the_device_when_it_takes_less_than_a_quarter_of_what_is_free(kind, monkeypatch):
    device = torch.device(kind)
    monkeypatch.setattr("ganexp.data.placement.free_memory", lambda asked: 1601 if asked == device else 0)
    assert is_resident("auto", 400, device)
    assert not is_resident("auto", 401, device)
    assert is_resident("resident", 10**9, device)
    assert not is_resident("streamed", 1, device)


@pytest.mark.parametrize(("place", "kind"), [("auto", Resident), ("resident", Resident), ("streamed", Streamed)])
def test_a_tensor_is_resident_for_a_run_on_the_cpu_unless_asked(place, kind, monkeypatch):
    monkeypatch.setattr("ganexp.data.placement.free_memory", lambda device: 1)
    data = torch.zeros(100, 1, 2, 2, dtype=torch.uint8)
    assert type(feed(data, 4, seed=0, device=torch.device("cpu"), dtype=torch.float32, place=place)) is kind


def folder_of_images(path, n=5):
    path.mkdir()
    for i, image in enumerate(noise(n, 9, 12, 3)):
        Image.fromarray(image).save(path / f"{i}.png")
    return ImageFolder(str(path), image_size=8)


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


def test_the_cache_knows_a_set_that_has_changed_and_a_file_that_is_broken(tmp_path):
    dataset, cache = folder_of_images(tmp_path / "images"), tmp_path / "cache"
    first = load_cached(dataset, cache).clone()  # not a map of the file that is about to break
    assert load_cached(ImageFolder(str(tmp_path / "images"), image_size=4), cache).shape[-1] == 4
    (file,) = [path for path in cache.glob("*.npy") if np.load(path).shape[-1] == 8]
    file.write_bytes(file.read_bytes()[:-100])
    assert torch.equal(load_cached(dataset, cache), first)
    file.write_bytes(b"not an array")
    assert torch.equal(load_cached(dataset, cache), first)
    (tmp_path / "images" / "2.png").unlink()
    assert len(load_cached(dataset, cache)) == 4
    assert not list(cache.glob("*.unfinished"))


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


def decode_and_count(images, cache, decoded):
    def counting(self, index):
        with decoded.get_lock():
            decoded.value += 1
        return original(self, index)

    from ganexp.data import image_folder

    original, image_folder._Images.__getitem__ = image_folder._Images.__getitem__, counting
    assert len(load_cached(ImageFolder(str(images), image_size=8), cache)) == 40


def test_of_jobs_that_start_at_once_one_decodes(tmp_path):
    folder_of_images(tmp_path / "images", n=40)
    context = multiprocessing.get_context("spawn")
    decoded = context.Value("i", 0)
    jobs = [context.Process(target=decode_and_count, args=(tmp_path / "images", tmp_path / "cache", decoded)) for _ in range(3)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert [job.exitcode for job in jobs] == [0, 0, 0]
    assert decoded.value == 40


def test_an_image_that_cannot_be_decoded_ends_the_decoding_and_leaves_no_file(tmp_path):
    folder_of_images(tmp_path / "images")
    (tmp_path / "images" / "broken.png").write_bytes(b"not a png")
    with pytest.raises(OSError, match=r"broken\.png cannot be decoded"):
        load_cached(ImageFolder(str(tmp_path / "images"), image_size=8), tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").glob("*") if path.suffix != ".lock"]


def test_pixels_are_brought_to_the_unit_range_and_points_are_left():
    pixels = torch.arange(256, dtype=torch.uint8)
    np.testing.assert_allclose(to_range(pixels, torch.float64).numpy(), np.arange(256) / 127.5 - 1, atol=1e-15)
    points = torch.randn(3, 2)
    assert torch.equal(to_range(points, torch.float32), points)
    assert torch.equal(points, to_range(points.clone(), torch.float32))
