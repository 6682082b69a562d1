"""The feed: order, flips and bits are the same wherever the data lie."""

import multiprocessing
import random
import sys
import time

import numpy as np
import pytest
import torch

from ganexp.data import Resident, Streamed, feed
from ganexp.data.feed import index_batches, to_pixels, to_range
from ganexp.data.placement import is_resident
from tests.data.samples import Items, noise


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


@pytest.mark.parametrize("workers", [0, 1])
def test_streamed_and_resident_feeds_give_the_same_batches(workers):
    data = torch.from_numpy(noise(20, 3, 4, 4))
    resident, streamed = Resident(data, 6, seed=3), Streamed(Items(data), 6, seed=3, workers=workers)
    for _ in range(8):
        assert torch.equal(next(resident).values, next(streamed).values)


@pytest.mark.parametrize("chunk", [1, 3 * 6 * 48 * 4, 2**22])
def test_making_several_batches_at_once_changes_none_of_them(chunk, monkeypatch):
    data, order = torch.from_numpy(noise(20, 3, 4, 4)), index_batches(20, 6, 3, "cpu")
    monkeypatch.setattr(sys.modules[Resident.__module__], "CHUNK", chunk)
    resident = Resident(data, 6, seed=3)
    batches = [next(resident).values for _ in range(30)]
    for batch in batches:
        assert torch.equal(batch, to_range(data[next(order)], torch.float32))
    for drawn in (1, 5, 17, 24):
        resident.seek(drawn)
        assert torch.equal(next(resident).values, batches[drawn])


@pytest.mark.parametrize("workers", [0, 1])
def test_flips_are_those_of_the_seed_and_the_epoch_wherever_the_data_lie(workers):
    data = torch.from_numpy(noise(10, 3, 4, 4))
    feeds = [
        Resident(data, 6, seed=3, flip=True),
        Streamed(data, 6, seed=3, flip=True, workers=workers),
        Streamed(Items(data), 6, seed=3, flip=True, workers=workers),
    ]
    plain, mirrored, flips = Resident(data, 6, seed=3), 0, []
    for _ in range(20):
        batches = [next(feed).values for feed in feeds]
        assert torch.equal(batches[0], batches[1])
        assert torch.equal(batches[0], batches[2])
        for image, original in zip(batches[0], next(plain).values, strict=True):
            flipped = torch.equal(image, original.flip(-1))
            assert flipped or torch.equal(image, original)
            mirrored += flipped
            flips.append(flipped)
    assert 40 < mirrored < 80  # of 120
    assert flips[:10] != flips[10:20]
    feeds[0].seek(7)
    again = Resident(data, 6, seed=3, flip=True)
    for _ in range(7):
        next(again)
    assert torch.equal(next(again).values, next(feeds[0]).values)


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


def test_pixels_are_brought_to_the_unit_range_and_points_are_left():
    pixels = torch.arange(256, dtype=torch.uint8)
    np.testing.assert_allclose(to_range(pixels, torch.float64).numpy(), np.arange(256) / 127.5 - 1, atol=1e-15)
    points = torch.randn(3, 2)
    assert torch.equal(to_range(points, torch.float32), points)
    assert torch.equal(points, to_range(points.clone(), torch.float32))


class Augmented(Items):
    """Draws from the global stream, as users' datasets do."""

    def __getitem__(self, index):
        return self.data[index] + torch.rand(()) + random.random()


def test_a_streamed_feed_leaves_the_global_streams_alone():
    data = torch.zeros(20, 2)
    before = torch.get_rng_state()
    for workers in (0, 1):
        feed = Streamed(data, 6, workers=workers)
        next(feed)
        feed.seek(5)
        next(feed)
        feed.close()
    assert torch.equal(torch.get_rng_state(), before)


def test_what_workers_draw_is_that_of_the_seed_whatever_the_global_stream_holds():
    def batches(seed):
        torch.manual_seed(torch.seed())
        feed = Streamed(Augmented(torch.zeros(20, 2)), 6, seed=seed, workers=1)
        return torch.stack([next(feed).values for _ in range(3)])

    assert torch.equal(batches(1), batches(1))
    assert not torch.equal(batches(1), batches(2))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_closed_feed_has_no_processes_and_goes_on_where_it_was(workers):
    data = torch.from_numpy(noise(20, 3, 4, 4))
    feed, resident = Streamed(Items(data), 6, seed=3, workers=workers), Resident(data, 6, seed=3)
    assert len(multiprocessing.active_children()) == workers
    for _ in range(3):
        assert torch.equal(next(feed).values, next(resident).values)
    began = time.perf_counter()
    feed.close()
    assert not multiprocessing.active_children()
    assert time.perf_counter() - began < 2
    for _ in range(3):
        assert torch.equal(next(feed).values, next(resident).values)
    feed.close()


def test_pixels_are_rounded_as_numpy_rounds_them():
    x = torch.linspace(-1.2, 1.2, 1001, requires_grad=True)
    pixels = to_pixels(x)
    expected = np.clip(np.rint((x.detach().numpy() + 1) * np.float32(127.5)), 0, 255).astype(np.uint8)
    assert pixels.dtype == torch.uint8
    assert not pixels.requires_grad
    np.testing.assert_array_equal(pixels.numpy(), expected)
