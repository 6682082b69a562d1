"""What identifies the data of a run, wherever they lie."""

import shutil

import pytest
import torch

from ganexp.data import MNIST, ImageFolder, Resident, Streamed, digest
from tests.data.samples import Items, folder_of_images, noise
from tests.data.torchvision_sets import write_idx


def test_a_folder_keeps_its_digest_where_it_is_moved_and_has_another_when_it_is_changed(tmp_path):
    original = folder_of_images(tmp_path / "images").digest()
    shutil.copytree(tmp_path / "images", tmp_path / "moved", copy_function=shutil.copyfile)  # with new times
    assert ImageFolder(str(tmp_path / "moved")).digest() == original
    changes = [
        lambda folder: (folder / "1.png").unlink(),
        lambda folder: (folder / "1.png").rename(folder / "9.png"),
        lambda folder: shutil.copyfile(folder / "0.png", folder / "z.png"),
        lambda folder: (folder / "1.png").write_bytes((folder / "1.png").read_bytes() + b"x"),
        lambda folder: (folder / "1.png").write_bytes((folder / "1.png").read_bytes()[:-1] + b"x"),  # of equal size
    ]
    digests = {original}
    for i, change in enumerate(changes):
        shutil.copytree(tmp_path / "images", tmp_path / str(i))
        change(tmp_path / str(i))
        digests.add(ImageFolder(str(tmp_path / str(i))).digest())
    assert len(digests) == 1 + len(changes)


def test_a_set_of_torchvision_has_the_digest_of_its_images(tmp_path):
    for name, images in [("a", noise(3, 28, 28)), ("b", noise(3, 28, 28)), ("c", 255 - noise(3, 28, 28))]:
        write_idx(tmp_path / name / "MNIST" / "raw", images)
    a, b, c = (MNIST(str(tmp_path / name)).digest() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
def test_a_tensor_has_the_digest_of_its_values_wherever_it_lies(dtype, monkeypatch):
    data = torch.from_numpy(noise(10, 3, 4, 4)).to(dtype)
    original = Resident(data, 2).digest
    assert original == Streamed(data.clone(), 5, seed=3).digest
    assert original == Resident(data.transpose(2, 3).contiguous().transpose(2, 3), 2).digest
    changed = data.clone()
    changed[7, 2, 3, 3] += 1
    assert Resident(changed, 2).digest != original
    assert Resident(data.view(10, 48), 2).digest != original
    monkeypatch.setattr(digest, "MOST", data[:3].nbytes)  # every fourth is then read
    sampled = digest.of_data(data)
    assert digest.of_data(changed) == sampled
    changed[8, 2, 3, 3] += 1
    assert digest.of_data(changed) != sampled


def test_of_samples_that_would_have_to_be_read_only_their_number_counts_unless_it_is_said():
    data = torch.zeros(20, 2)
    assert Streamed(Items(data), 6).digest != Streamed(Items(data[:19]), 6).digest
    assert Streamed(Items(data), 6, digest="mine").digest == "mine"
