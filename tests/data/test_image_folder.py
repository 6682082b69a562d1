"""Folders of images: what is found, and what is skipped."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp.data import ImageFolder, load_cached
from tests.data.samples import noise, save


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


def test_a_folder_that_is_none_or_empty_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^path should be"):
        ImageFolder(str(tmp_path / "missing"))
    with pytest.raises(ValueError, match=r"^path should be .* ~nobody-of-that-name/x is neither$"):
        ImageFolder("~nobody-of-that-name/x")
    with pytest.raises(ValueError, match="holds none of"):
        ImageFolder(str(tmp_path))


def colours(dataset):
    return [int(image[0, 0, 0]) for image in dataset.load()]


def test_folders_behind_links_are_read_each_once(tmp_path):
    images, elsewhere = tmp_path / "images", tmp_path / "elsewhere"
    save(images / "deep" / "1.png", 1)
    save(elsewhere / "2.gif", 2)
    (images / "linked").symlink_to(elsewhere)
    (images / "again").symlink_to(elsewhere)
    (images / "deep" / "up").symlink_to(images)  # a cycle
    (elsewhere / "self").symlink_to(elsewhere)
    (images / "a").symlink_to(images / "deep")  # comes first by name, but is not the real one
    dataset = ImageFolder(str(images), image_size=4)
    assert [str(path.relative_to(images)) for path in dataset.load().files] == ["again/2.gif", "deep/1.png"]
    assert colours(dataset) == [2, 1]


def test_a_link_in_one_class_to_another_one_takes_no_images_from_it(tmp_path):
    save(tmp_path / "a" / "1.png")
    save(tmp_path / "b" / "2.png")
    (tmp_path / "a" / "see").symlink_to(tmp_path / "b")
    dataset = ImageFolder(str(tmp_path), image_size=4)
    assert [str(path.relative_to(tmp_path)) for path in dataset.load().files] == ["a/1.png", "b/2.png"]
    assert dataset.labels().tolist() == [0, 1]


def test_what_is_skipped_is_counted(tmp_path, caplog):
    for name in ("1.png", "2.PNG"):
        save(tmp_path / name)
    for name in ("a.txt", "b.TXT", "README", "sub/c.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.png")
    dataset = ImageFolder(str(tmp_path), image_size=4)
    assert len(dataset.load()) == 2
    dataset.fingerprint()
    (sentence,) = [record.getMessage() for record in caplog.records]
    assert sentence.startswith(f"{tmp_path}: 2 images are read, 6 skipped (2 .txt, ")
    for kind in ("1 without extension", "1 .npz", "1 broken link", "1 .png that is no file"):
        assert kind in sentence


def test_a_name_need_not_be_text(tmp_path, caplog):
    folder = os.path.join(os.fsencode(tmp_path), b"im\xe4ges")
    os.mkdir(folder)
    save(Path(os.fsdecode(os.path.join(folder, b"gr\xfcn.png"))), 7)
    dataset = ImageFolder(os.fsdecode(folder), image_size=4)
    assert load_cached(dataset, tmp_path / "cache").unique().tolist() == [7]
    assert dataset.digest()
    Path(os.fsdecode(os.path.join(folder, b"gr\xfcn.png"))).write_bytes(b"broken")
    with pytest.raises(OSError, match=r"gr\\udcfcn\.png cannot be decoded") as caught:
        load_cached(ImageFolder(os.fsdecode(folder), image_size=4), tmp_path / "cache")
    str(caught.value).encode()  # it can be written into a log


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (
            (80, 96),
            "3 of 3 images looked at are cut to the proportions of 64×64, most of them from 96×80 pixels",
        ),
        ((300, 400), "4:3"),
        ((128, 128), None),
        ((65, 64), None),
    ],
)
def test_cropping_is_reported_with_the_size_that_keeps_images(tmp_path, caplog, size, sentence):
    caplog.set_level("INFO")
    for i in range(3):
        save(tmp_path / f"{i}.png", i, size=size[::-1])
    ImageFolder(str(tmp_path), image_size=64).load()
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [] if sentence is None else sentence in messages[0]
