"""torchvision's sets, in the originals' formats, with what is odd about each; nothing here touches a network."""

import struct
from urllib.error import URLError

import numpy as np
import pytest
import torch

from ganexp.data import CIFAR10, CIFAR100, EMNIST, KMNIST, MNIST, STL10, SVHN, CelebA, FashionMNIST, load_cached
from tests.data import torchvision_sets as sets
from tests.data.samples import noise
from tests.data.torchvision_sets import write_idx


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)


def assert_holds(dataset, images, labels, classes):
    loaded = dataset.load()
    assert loaded.dtype == torch.uint8
    assert loaded.is_contiguous()
    assert loaded.shape[1:] == dataset.shape
    np.testing.assert_array_equal(loaded.numpy(), images)
    assert dataset.labels().dtype == torch.int64
    assert dataset.labels().tolist() == labels
    assert dataset.classes == classes
    assert len(dataset.class_names) in (0, classes)
    assert dataset.digest().startswith("files-")


@pytest.mark.parametrize("dataset", [MNIST, FashionMNIST, KMNIST])
def test_sets_in_idx_files(dataset, tmp_path):
    images = noise(4, 28, 28)
    write_idx(tmp_path / dataset.__name__ / "raw", images, [3, 0, 9, 3])
    assert_holds(dataset(str(tmp_path), image_size=28), images[:, None], [3, 0, 9, 3], 10)
    resized = dataset(str(tmp_path)).load()
    assert (resized.shape, resized.dtype) == ((4, 1, 32, 32), torch.uint8)


def test_cifar10_spans_its_files(tmp_path, monkeypatch):
    images = noise(4, 3, 32, 32)
    sets.write_cifar10(tmp_path, images, [1, 8, 2, 7], monkeypatch)
    assert_holds(CIFAR10(str(tmp_path)), images, [1, 8, 2, 7], 10)


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
def test_broken_files_are_named_with_the_remedy(content, tmp_path):
    write_idx(tmp_path / "MNIST" / "raw", noise(12, 28, 28))
    (tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(OSError, match=r"^the files of MNIST in .*raw are broken"):
        MNIST(str(tmp_path)).load()


@pytest.mark.parametrize(
    ("split", "classes", "first"),
    [("byclass", 62, 0), ("bymerge", 47, 0), ("balanced", 47, 0), ("letters", 26, 1), ("digits", 10, 0), ("mnist", 10, 0)],
)
def test_emnist_is_upright_and_its_classes_begin_with_0(split, classes, first, tmp_path):
    images, labels = noise(3, 28, 28), [0, classes - 1, 4]
    sets.write_emnist(tmp_path, split, images, [label + first for label in labels])
    assert_holds(EMNIST(str(tmp_path), split=split, image_size=28), images[:, None], labels, classes)
    assert EMNIST(str(tmp_path), split=split).class_names[0] == ("a" if split == "letters" else "0")


def test_the_splits_of_emnist_are_kept_apart_in_the_cache(tmp_path):
    sets.write_emnist(tmp_path, "digits", noise(3, 28, 28), [1, 2, 3])
    sets.write_emnist(tmp_path, "mnist", 255 - noise(3, 28, 28), [1, 2, 3])
    digits, mnist = (
        load_cached(EMNIST(str(tmp_path), split=split, image_size=28), tmp_path / "cache") for split in ("digits", "mnist")
    )
    assert torch.equal(digits, 255 - mnist)


def test_cifar100(tmp_path, monkeypatch):
    images = noise(3, 3, 32, 32)
    sets.write_cifar100(tmp_path, images, [99, 0, 5], monkeypatch)
    assert_holds(CIFAR100(str(tmp_path)), images, [99, 0, 5], 100)


def test_the_class_of_a_house_number_is_its_digit(tmp_path, monkeypatch):
    images = noise(3, 3, 32, 32)
    sets.write_svhn(tmp_path, images, [0, 9, 1], monkeypatch)
    assert_holds(SVHN(str(tmp_path)), images, [0, 9, 1], 10)


def test_stl10_has_labelled_photographs_and_others(tmp_path, monkeypatch):
    photographs = noise(5, 3, 96, 96)
    sets.write_stl10(tmp_path, photographs[:2], [9, 0], photographs[2:], monkeypatch)
    labelled = STL10(str(tmp_path), split="train")
    assert_holds(labelled, photographs[:2], [9, 0], 10)
    for split, expected in (("train+unlabeled", photographs), ("unlabeled", photographs[2:])):
        others = STL10(str(tmp_path), split=split)
        np.testing.assert_array_equal(others.load().numpy(), expected)
        assert others.classes == 0
        assert others.digest() != labelled.digest()
        with pytest.raises(ValueError, match=r"^split should be "):
            others.labels()


def test_celeba_is_cut_to_the_central_square(tmp_path, monkeypatch):
    faces = np.zeros((4, 218, 178, 3), np.uint8)
    faces[:, 20:198] = [200, 0, 0]  # the square of 178
    faces[:, 35:183, 15:163] = [0, 0, 200]  # the square of 148
    faces[2] = [0, 200, 0]
    sets.write_celeba(tmp_path, faces, [0, 1, 0, 2], monkeypatch)
    inner = CelebA(str(tmp_path), crop=148, image_size=16)
    face, green = inner.load()
    assert face.shape == inner.shape == (3, 16, 16)
    assert face.dtype == torch.uint8
    assert (face[2] > 180).all()  # JPEG's colours are not exact
    assert (green[1] > 180).all()
    whole = CelebA(str(tmp_path), image_size=16)
    outer, _ = whole.load()
    assert (outer[0] > 180).sum() == 16**2 - 14**2  # 15 of 178 pixels are 1.35 of 16
    assert load_cached(whole, tmp_path / "cache").shape == (2, 3, 16, 16)
    assert not torch.equal(load_cached(inner, tmp_path / "cache"), load_cached(whole, tmp_path / "cache"))


@pytest.mark.parametrize(
    ("dataset", "place"),
    [
        (FashionMNIST, "FashionMNIST/raw"),
        (CIFAR10, "cifar-10-batches-py"),
        (EMNIST, "EMNIST/raw"),
        (CIFAR100, "cifar-100-python"),
        (SVHN, "."),
        (STL10, "stl10_binary"),
        (CelebA, "celeba"),
    ],
)
def test_a_set_that_cannot_be_had_says_in_one_line_where_it_belongs(dataset, place, tmp_path):
    with pytest.raises(OSError, match=rf"^{dataset.__name__} is not in ") as caught:
        dataset(str(tmp_path)).load()
    assert f"put its files into {tmp_path / place}, name" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_celeba_without_its_lists_is_incomplete(tmp_path, monkeypatch):
    sets.write_celeba(tmp_path, noise(2, 218, 178, 3), [0, 0], monkeypatch)
    (tmp_path / "celeba" / "list_eval_partition.txt").unlink()
    with pytest.raises(OSError, match=r"^the files of CelebA in .*celeba are broken"):
        CelebA(str(tmp_path)).load()
