"""Samples that a data set has beside those that are trained on; nothing is downloaded for them."""

import numpy as np
import pytest
import torch

from ganexp.config.run_data import held_out_of, preview_of
from ganexp.data import CIFAR10, MNIST, SVHN, Degraded, Digits, Grid, ImageFolder, Ring, StackedMNIST
from ganexp.facts import UserError
from ganexp.training.execution import Machine
from tests.data.samples import noise, save
from tests.data.torchvision_sets import write_idx

CPU = Machine(torch.device("cpu"), "fp32")


@pytest.fixture
def both_parts(tmp_path):
    """MNIST with white images for training and grey ones for tests, of the class that is their number modulo 10."""
    folder = tmp_path / "MNIST" / "raw"
    for part, n, value in (("train", 20, 255), ("t10k", 12, 128)):
        write_idx(folder, np.full((n, 28, 28), value, np.uint8), [i % 10 for i in range(n)], parts=(part,))
    return str(tmp_path)


def test_the_test_part_of_mnist_is_held_out_with_its_labels(both_parts, tmp_path, monkeypatch):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    dataset = MNIST(both_parts, image_size=28)
    batch = held_out_of(dataset, 10, 8, CPU)
    assert batch.values.shape == (8, 1, 28, 28)
    assert torch.unique(batch.values).tolist() == pytest.approx([128 / 127.5 - 1], abs=1e-6)
    assert torch.unique(dataset.load()).tolist() == [255]
    assert held_out_of(dataset, 0, 100, CPU).values.shape[0] == 12
    again = held_out_of(dataset, 10, 8, CPU)
    assert torch.equal(batch.conditions[0], again.conditions[0])


def test_stacked_digits_are_held_out_of_the_test_part(both_parts):
    others = StackedMNIST(both_parts, image_size=28, n=50).held_out()
    assert torch.unique(others.load()).tolist() == [128]
    assert others.load().shape == (50, 3, 28, 28)
    assert others.labels().max() > 100


@pytest.mark.parametrize("mixture", [Ring(n=500), Grid(n=500)], ids=["ring", "grid"])
def test_other_points_of_a_mixture_are_held_out(mixture):
    batch, before = held_out_of(mixture, mixture.classes, 300, CPU), mixture.load()
    assert not (batch.values[:, None] == before).all(2).any()
    nearest = torch.cdist(batch.values, mixture.centers).argmin(1)
    assert torch.equal(nearest, batch.conditions[0])
    assert torch.equal(mixture.load(), before)


@pytest.mark.parametrize("dataset", [MNIST, CIFAR10, SVHN, StackedMNIST])
def test_nothing_is_downloaded(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("the network was touched"))
    assert held_out_of(dataset(str(tmp_path)), 0, 8, CPU) is None


def test_sets_without_a_test_part_have_none():
    assert held_out_of(Digits(), 0, 8, CPU) is None


def test_a_broken_test_part_is_done_without(both_parts, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    (tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte").write_bytes(np.ascontiguousarray(noise(4)).tobytes())
    assert held_out_of(MNIST(both_parts), 0, 8, CPU) is None
    assert "accuracy/held_out is not logged, since the held-out images cannot be read: the files of MNIST in" in caplog.text


def test_held_out_images_of_a_class_that_is_not_trained_on_are_refused(tmp_path):
    for name in ("train/a", "train/b", "test/a", "test/c"):
        save(tmp_path / name / "0.png")
    dataset = Degraded(of=ImageFolder(str(tmp_path), image_size=4), how="noisy")
    with pytest.raises(UserError, match="class c"):
        preview_of(dataset, dataset.load(), 2, CPU)
