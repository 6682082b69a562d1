"""The speed of the feed, compared with torchvision's datasets behind a DataLoader, and the waiting time of runs."""

import os
import statistics
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence, Sized
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as MapStyle
from torchvision import datasets, transforms

from benchmarks.section import Section
from ganexp.cli.commands.compare.cases import CASES, trainer_of
from ganexp.compare.intervals import of_ratio
from ganexp.compare.racing import synchronize
from ganexp.data import MNIST, ImageFolder, Resident, Streamed, load_cached
from measuring.markdown import table

BATCH = 64
SETS = ("mnist/", "cifar10-train.zip")
"""The data that a folder may have."""
WORKERS = min(16, os.cpu_count() or 1)
RESIDENT, CACHED = "`feed=resident`", "`feed=streamed`, from the cache"
STREAMED, PLAIN = "`feed=streamed`, from the files", "plain"


def feeding(data: Path | None, cases: Sequence[str], turns: int, seconds: float) -> Section:
    """Time, in turn, every way to get batches of 64 onto the device; and the wait for data within runs."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        for name, feeds in _sets(data, Path(cache), device).items():
            rates: dict[str, list[float]] = {way: [] for way in feeds}
            for _ in range(turns):
                for way, feed in feeds.items():
                    rates[way].append(_images_per_s(feed, seconds, device))
            for way, found in rates.items():
                rows.append(
                    {
                        "set": name,
                        "by": way,
                        "images/s": f"{statistics.median(found):,.0f}",
                        "over plain": of_ratio(found, rates[PLAIN]),
                    }
                )
    waits = [_wait(case, iterations=max(1, 8 * turns)) for case in cases]
    return Section(
        "Data",
        f"Batches of {BATCH}, normalised to [-1, 1] and on the device. *Plain* is torchvision's dataset with its transforms "
        f"behind a DataLoader that shuffles, with {WORKERS} workers kept alive between epochs; the sets are at their native "
        "sizes. Decoding, which the cache does once per machine, is not included.\n\n"
        + (table(rows) if rows else "(No data given by --data-root; not run.)\n")
        + "\nThe share of an iteration that is spent waiting for data, with `feed=resident`:\n\n"
        + table(waits),
    )


def _sets(root: Path | None, cache: Path, device: torch.device) -> dict[str, dict[str, Iterator[Sized]]]:
    found: dict[str, dict[str, Iterator[Sized]]] = {}
    if root is None:
        return found
    if (root / "mnist").is_dir():
        mnist = load_cached(MNIST(str(root / "mnist"), image_size=28), cache)
        steps = [transforms.ToTensor(), transforms.Normalize(0.5, 0.5)]
        assert isinstance(mnist, Tensor)
        found["MNIST, idx files"] = {
            RESIDENT: Resident(mnist, BATCH, device=device),
            CACHED: Streamed(mnist, BATCH, device=device, workers=WORKERS),
            PLAIN: _plain(datasets.MNIST(root / "mnist", transform=transforms.Compose(steps)), device),
        }
    if (root / "cifar10-train.zip").exists():
        folder = cache / "cifar10"
        with zipfile.ZipFile(root / "cifar10-train.zip") as archive:
            archive.extractall(folder)
        files = ImageFolder(str(folder), image_size=32)
        cifar = load_cached(files, cache, place="resident", workers=WORKERS)
        steps = [transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]
        assert isinstance(cifar, Tensor)
        found["CIFAR-10, JPEG files"] = {
            RESIDENT: Resident(cifar, BATCH, device=device),
            CACHED: Streamed(cifar, BATCH, device=device, workers=WORKERS),
            STREAMED: Streamed(files.load(), BATCH, device=device, workers=WORKERS),
            PLAIN: _plain(datasets.ImageFolder(str(folder), transform=transforms.Compose(steps)), device),
        }
    return found


def _plain(dataset: MapStyle[Any], device: torch.device) -> Iterator[Tensor]:
    loader = DataLoader(
        dataset,
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=WORKERS,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )
    while True:
        for images, _ in loader:
            yield images.to(device, non_blocking=True)


def _images_per_s(feed: Iterator[Sized], seconds: float, device: torch.device) -> float:
    for _ in range(3):
        next(feed)
    synchronize(device)
    start, images = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for _ in range(20):
            images += len(next(feed))
    synchronize(device)
    return images / (time.perf_counter() - start)


def _wait(case: str, iterations: int) -> dict[str, object]:
    trainer = trainer_of(*CASES[case])
    for _ in range(8):
        trainer.step(trainer.reals)
    trainer.gan.timer.read_ms()
    for _ in range(iterations):
        trainer.step(trainer.reals)
    mean_ms = trainer.gan.timer.read_ms()
    return {"case": case, "waits": f"{mean_ms['data'] / mean_ms['iteration']:.2%}"}
