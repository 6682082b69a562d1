"""torchvision's sets. Nothing here touches a network: sets are written in the originals' formats."""

import hashlib
import pickle
import struct
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torchvision import datasets

from ganexp.data import CIFAR10, MNIST, FashionMNIST
from tests.data.samples import noise
from tests.data.torchvision_sets import write_idx


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was touched")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)


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


@pytest.mark.parametrize(("dataset", "place"), [(FashionMNIST, "FashionMNIST/raw"), (CIFAR10, "cifar-10-batches-py")])
def test_a_set_that_cannot_be_had_says_in_one_line_what_to_do(dataset, place, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(OSError) as caught:  # noqa: PT011
        dataset(str(tmp_path)).load()
    assert str(caught.value) == (
        f"{dataset.__name__} is not in {tmp_path} and cannot be downloaded (<urlopen error no route to host>): "
        f"put its files into {tmp_path / place}, "
        "name the folder that has them with data_root=…, or take dataset=digits, which needs none"
    )


def idx(magic, *sizes, content=b""):
    return struct.pack(f">{1 + len(sizes)}I", magic, *sizes) + content


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>not found</html>",
        idx(2051, 12, 28, 28, content=bytes(100)),  # cut off
        idx(2051, 0, 28, 28),
        idx(2049, 12, content=bytes(12)),  # the labels
        idx(0x0D03, 2, 2, 2, content=bytes(32)),  # floats
    ],
)
def test_broken_files_are_named_with_the_remedy(content, tmp_path, no_network):
    write_idx(tmp_path / "MNIST" / "raw", noise(12, 28, 28))
    (tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(OSError, match=r"^the files of MNIST in .*raw are broken"):
        MNIST(str(tmp_path)).load()
