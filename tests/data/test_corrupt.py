"""Images that cannot be decoded: named, counted and left out, or refused; all others stay as they were."""

import errno
import shutil
import zipfile

import pytest
import torch
from PIL import Image

from ganexp.data import DecodingError, ImageFolder, ReadingError, Resident, Streamed, load_cached
from ganexp.data.cache import _name
from tests.data.samples import noise, zipped


@pytest.fixture
def folders(tmp_path):
    """Return a folder with three corrupt images among eight, and one with the other five."""
    for i, pixels in enumerate(noise(8, 9, 12, 3)):
        path = tmp_path / "all" / ["cat", "dog", "ant"][i % 3] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    shutil.copytree(tmp_path / "all", tmp_path / "whole")
    for name in ("ant/2.png", "cat/0.png", "cat/6.png"):
        (tmp_path / "whole" / name).unlink()
    (tmp_path / "all" / "ant" / "2.png").write_bytes(b"not a png")
    (tmp_path / "all" / "cat" / "0.png").write_bytes(b"")
    content = (tmp_path / "all" / "cat" / "6.png").read_bytes()
    (tmp_path / "all" / "cat" / "6.png").write_bytes(content[: len(content) // 2])
    return tmp_path / "all", tmp_path / "whole"


def of(path, **settings):
    return ImageFolder(str(path), image_size=8, **settings)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("place", [str, zipped])
def test_corrupt_images_are_named_counted_and_left_out(workers, place, folders, tmp_path, caplog):
    some, whole = folders
    expected = torch.stack(list(of(whole).load()))
    dataset = of(place(some))
    assert torch.equal(load_cached(dataset, tmp_path / "cache", workers=workers), expected)
    (sentence,) = [record.getMessage() for record in caplog.records]
    assert ": 3 of 8 images are skipped: " in sentence
    for name in ("ant/2.png", "cat/0.png", "cat/6.png"):
        assert f"{name} cannot be decoded as an image (" in sentence
    assert "2.png cannot be decoded as an image (its format is not known); " in sentence
    assert dataset.digest() == of(whole).digest()
    assert torch.equal(dataset.labels(), of(whole).labels())
    batches, expected_batches = Resident(load_cached(dataset, tmp_path / "cache"), 4), Resident(expected, 4)
    assert all(torch.equal(next(batches).values, next(expected_batches).values) for _ in range(5))


def test_the_next_run_knows_them_until_the_folder_changes(folders, tmp_path, monkeypatch, caplog):
    some, whole = folders
    load_cached(of(some), tmp_path / "cache")
    caplog.clear()
    with monkeypatch.context() as patched:
        patched.setattr("ganexp.data.decoding.decoded", lambda *_, **__: pytest.fail("decoded again"))
        images = load_cached(of(some), tmp_path / "cache")
    assert torch.equal(images, torch.stack(list(of(whole).load())))
    assert "3 of 8 images are skipped" in caplog.text
    shutil.copyfile(whole / "dog" / "1.png", some / "cat" / "0.png")  # mended
    assert len(load_cached(of(some), tmp_path / "cache")) == 6
    assert "2 of 8 images are skipped" in caplog.text


def test_a_batch_may_hold_no_whole_image_where_nothing_can_be_kept(folders, tmp_path, monkeypatch):
    some, whole = folders
    monkeypatch.setattr("ganexp.data.cache.BATCH", 1)
    (tmp_path / "file").touch()
    assert torch.equal(load_cached(of(some), tmp_path / "file"), torch.stack(list(of(whole).load())))
    for path in ("cat/3.png", "dog/1.png", "dog/4.png", "dog/7.png", "ant/5.png"):
        (some / path).write_bytes(b"")
    with pytest.raises(OSError, match=r"none of the images in .* can be decoded: "):
        load_cached(of(some), tmp_path / "file")


def test_strict_refuses_the_first_of_them(folders, tmp_path):
    for _ in range(2):  # the second time, they are known
        with pytest.raises(DecodingError, match=r"all/ant/2\.png cannot be decoded"):
            load_cached(of(folders[0], strict=True), tmp_path / "cache")
        load_cached(of(folders[0]), tmp_path / "cache")


def test_a_streamed_run_ends_at_the_first_unless_they_are_known(folders, tmp_path):
    some, whole = folders
    unknown = Streamed(load_cached(of(some), tmp_path / "cache", place="streamed"), 8)
    with pytest.raises(DecodingError, match="cannot be decoded"):
        next(unknown)
    load_cached(of(some), tmp_path / "cache")
    for file in (tmp_path / "cache").glob("*.npy"):
        file.unlink()
    known = Streamed(load_cached(of(some), tmp_path / "cache", place="streamed"), 4)
    expected = Streamed(of(whole).load(), 4)
    assert all(torch.equal(next(known).values, next(expected).values) for _ in range(4))


def test_a_folder_without_corrupt_images_is_the_same_strict_or_not(folders, tmp_path, caplog):
    strict, lenient = of(folders[1], strict=True), of(folders[1])
    assert _name(strict) == _name(lenient)
    assert strict.digest() == lenient.digest()
    assert torch.equal(load_cached(strict, tmp_path / "a", workers=1), load_cached(lenient, tmp_path / "b", workers=1))
    assert not list((tmp_path / "b").glob("*.json"))
    assert not caplog.records


def test_a_class_that_has_lost_all_images_keeps_its_place(folders, tmp_path):
    dataset = of(folders[0])
    for name in ("cat/3.png", "cat/0.png", "cat/6.png"):
        (folders[0] / name).write_bytes(b"not a png")
    load_cached(dataset, tmp_path / "cache")
    assert dataset.classes == 3
    assert set(dataset.labels().tolist()) == {0, 2}


@pytest.mark.parametrize("cause", [OSError(errno.EIO, "Input/output error"), MemoryError()])
def test_a_disk_or_memory_that_fails_is_not_taken_for_a_corrupt_image(cause, folders, tmp_path, monkeypatch):
    original = Image.open

    def failing(path):
        if path.name == "5.png":
            raise cause
        return original(path)

    monkeypatch.setattr("ganexp.data.decoding.Image.open", failing)
    with pytest.raises(ReadingError, match=r"5\.png cannot be read"):
        load_cached(of(folders[0]), tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]


def test_a_folder_of_nothing_else_is_refused_with_the_first_name(tmp_path):
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        archive.writestr("b.png", b"")
        archive.writestr("a.png", b"")
    with pytest.raises(OSError, match=r"^none of the images in .*images\.zip .*/a\.png"):
        load_cached(of(tmp_path / "images.zip"), tmp_path / "cache")


def test_of_many_the_first_are_named(tmp_path, caplog):
    for i in range(13):
        (tmp_path / f"{i:02}.png").write_bytes(b"")
    Image.new("L", (4, 4)).save(tmp_path / "good.png")
    assert len(load_cached(of(tmp_path), tmp_path / "cache")) == 1
    assert "13 of 14 images are skipped" in caplog.text
    assert "09.png" in caplog.text
    assert "10.png" not in caplog.text
    assert caplog.text.rstrip().endswith("; and 3 more.")
