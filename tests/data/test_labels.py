"""The class of every sample, in the order in which the samples are loaded."""

import numpy as np
import pytest
import torch

from ganexp.data import MNIST, Digits, Grid, ImageFolder, Ring
from tests.data.samples import save


def test_digits_are_labelled_as_scikit_learn_labels_them():
    from sklearn.datasets import load_digits

    digits = Digits()
    assert digits.labels().dtype == torch.int64
    np.testing.assert_array_equal(digits.labels().numpy(), load_digits().target)
    assert digits.classes == 10


@pytest.mark.parametrize("mixture", [Ring(n=2000), Grid(n=2000), Ring(modes=1, n=10)])
def test_the_class_of_a_point_is_the_mode_that_is_nearest(mixture):
    labels = mixture.labels()
    assert labels.dtype == torch.int64
    assert torch.equal(labels, torch.cdist(mixture.load(), mixture.centers).argmin(1))  # 14 deviations lie between modes
    assert mixture.classes == len(mixture.centers)


def test_labels_that_are_not_there_are_missed_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: 1 / 0)
    with pytest.raises(OSError, match=r"^MNIST is not in "):
        MNIST(str(tmp_path)).labels()


def test_the_class_of_an_image_is_the_first_folder_on_its_way(tmp_path):
    for i, place in enumerate(["dog/1.png", "cat/old/2.png", "cat/1.png", "dog/0.png", "ant/x.png", "cat-fish/7.png"]):
        save(tmp_path / place, ("ant", "cat", "cat-fish", "dog").index(place.partition("/")[0]) * 10 + i)
    folder = ImageFolder(str(tmp_path), image_size=4)
    shown = [int(image[0, 0, 0]) // 10 for image in folder.load()]
    assert folder.labels().tolist() == shown
    assert sorted(shown) == [0, 1, 1, 2, 3, 3]
    assert (folder.labels().dtype, folder.classes) == (torch.int64, 4)


def test_a_folder_with_images_outside_of_sub_folders_has_no_classes(tmp_path):
    save(tmp_path / "dog" / "1.png", 1)
    save(tmp_path / "2.png", 2)
    folder = ImageFolder(str(tmp_path), image_size=4)
    assert folder.classes == 0
    with pytest.raises(ValueError, match=r"^path should have two or more sub-folders"):
        folder.labels()
