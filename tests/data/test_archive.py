"""Images in a zip archive: those of the folder that it unpacks to, read by each process for itself."""

import os
import pickle
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from ganexp.data import ImageFolder, Streamed, load_cached
from ganexp.data.folder import Archive
from tests.data.samples import noise, zipped
from tests.data.tars import png
from tests.processes import reaped

NAMES = ["b/2.png", "a/deep/1.png", "b/10.png", "a-b/3.png", "a/4.JPG"]


@pytest.fixture
def both(tmp_path):
    """Return a folder and an archive of it, whose members are in another order."""
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for name, pixels in zip(NAMES, noise(5, 9, 12, 3), strict=True):
            path = tmp_path / "images" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(pixels))
            archive.write(path, name)
    return ImageFolder(str(tmp_path / "images"), image_size=8), ImageFolder(str(tmp_path / "images.zip"), image_size=8)


def test_an_archive_is_the_folder_that_it_unpacks_to(both):
    folder, archive = both
    assert torch.equal(torch.stack(list(folder.load())), torch.stack(list(archive.load())))
    assert torch.equal(folder.labels(), archive.labels())
    assert folder.classes == archive.classes == 3
    assert folder.digest() == archive.digest()
    assert folder.fingerprint() != archive.fingerprint()


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_the_folder_whoever_reads(workers, both, tmp_path):
    folder, archive = (Streamed(dataset.load(), 4, workers=workers) for dataset in both)
    for _ in range(6):
        assert torch.equal(next(folder).values, next(archive).values)
    folder.close()
    archive.close()
    kept = [load_cached(dataset, tmp_path / "cache", workers=workers) for dataset in both]
    assert torch.equal(*kept)


def test_every_process_opens_the_archive_for_itself(both):
    _, archive = both
    place = archive.place
    path = archive.load().files[0]
    content, handle = place.read(path), place._handle()
    receiver, tell = os.pipe()
    child = os.fork()
    if not child:
        os.write(tell, bytes([place.read(path) == content and place._handle() is not handle]))
        os._exit(0)
    reaped([child])
    assert os.read(receiver, 1) == b"\1"
    os.close(receiver)
    os.close(tell)
    assert place._handle() is handle
    assert pickle.loads(pickle.dumps(place)).read(path) == content


def test_what_is_no_image_is_skipped_and_counted(tmp_path, caplog):
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        archive.mkdir("sub")
        archive.writestr("sub/1.png", b"which the next one would replace if they were unpacked")
        for name in ("/sub/1.png", "./sub//2.png"):  # names as careless tools write them
            archive.writestr(name, png(noise(4, 4, 3)))
        archive.writestr("__MACOSX/sub/._1.png", b"of the file's icon")
        archive.writestr("notes.txt", b"")
        archive.writestr("secret.png", b"")
    content = bytearray((tmp_path / "images.zip").read_bytes())
    content[content.rindex(b"PK\1\2") + 8] |= 1  # the bit that tells that the last file is encrypted
    (tmp_path / "images.zip").write_bytes(content)
    dataset = ImageFolder(str(tmp_path / "images.zip"), image_size=4)
    for image in dataset.load():
        np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), noise(4, 4, 3))
    assert [path.relative_to(tmp_path).as_posix() for path in dataset.load().files] == [
        "images.zip/sub/1.png",
        "images.zip/sub/2.png",
    ]
    (sentence,) = [record.getMessage() for record in caplog.records]
    assert ": 2 images are read, 4 skipped (" in sentence
    for kind in ("1 .txt", "1 encrypted", "1 hidden", "1 replaced"):
        assert kind in sentence


HIDDEN = (
    ".ipynb_checkpoints/1.png",
    "@eaDir/1.png/thumb.png",
    "__MACOSX/cat/._1.png",
    ".Trash-1000/files/1.png",
    "cat/.thumbnails/1.png",
    "cat/._1.jpg",
    "$RECYCLE.BIN/1.png",
    "System Volume Information/1.png",
    "lost+found/1.png",
    "dog/Thumbs.db",
)


def test_hidden_and_system_folders_and_files_are_no_data_in_an_archive_and_unpacked(tmp_path, caplog):
    images = tmp_path / ".cache" / "images"  # what lies above is no matter
    for name in ("cat/1.png", "dog/1.png", *HIDDEN):
        (images / name).parent.mkdir(parents=True, exist_ok=True)
        (images / name).write_bytes(png(noise(4, 4, 3)))
    for dataset in (ImageFolder(str(images), image_size=4), ImageFolder(str(zipped(images)), image_size=4)):
        assert [path.relative_to(dataset.folder).as_posix() for path in dataset.load().files] == ["cat/1.png", "dog/1.png"]
        assert dataset.labels().tolist() == [0, 1]
    assert [record.getMessage().count("10 hidden") for record in caplog.records] == [1, 1]


def test_backslashes_separate_folders_in_an_archive_of_windows(tmp_path, caplog):
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for system, name in ((0, "a\\"), (0, "a\\1.png"), (0, "b\\2.png"), (3, "c/back\\slash.png")):
            member = zipfile.ZipInfo(name)
            member.create_system = system
            archive.writestr(member, png(noise(4, 4, 3)) if name.endswith("g") else b"")
    dataset = ImageFolder(str(tmp_path / "images.zip"), image_size=4)
    assert dataset.labels().tolist() == [0, 1, 2]
    assert len(torch.stack(list(dataset.load()))) == 3
    assert not caplog.records


def test_a_member_that_is_broken_is_named(both, tmp_path):
    path = tmp_path / "images.zip"
    content = bytearray(path.read_bytes())
    content[content.index(b"IDAT") + 20] ^= 255
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"images\.zip/b/2\.png .*CRC-32"):
        list(ImageFolder(str(path), image_size=8).load())
    assert Archive(path).head(path / "b/2.png", 1000) == b""


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_cannot_be_unpacked_does_not_keep_a_folder_from_having_a_digest(compression, tmp_path):
    path = tmp_path / "images.zip"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("1.png", png(noise(9, 12, 3)))
    content = bytearray(path.read_bytes())
    begin = content.index(b"1.png") + len("1.png")
    content[begin + 9 : begin + 40] = b"\xff" * 31
    path.write_bytes(content)
    assert Archive(path).head(path / "1.png", 1000) == b""
    assert ImageFolder(str(path), image_size=8).digest()


def test_a_member_that_claims_gigabytes_is_skipped(tmp_path, caplog):
    with zipfile.ZipFile(tmp_path / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("1.png", "2.png", "notes.txt"):
            archive.writestr(name, png(noise(4, 4, 3)))
        for name in ("2.png", "notes.txt"):
            archive.getinfo(name).file_size = 2**31
    dataset = ImageFolder(str(tmp_path / "images.zip"), image_size=4)
    assert [path.name for path in dataset.load().files] == ["1.png"]
    assert ": 1 images are read, 2 skipped (1 larger than 256 MiB, 1 .txt)" in caplog.text


def test_of_a_member_that_claims_too_little_no_more_is_unpacked(tmp_path):
    path = tmp_path / "images.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.png", bytes(2**25))
        archive.getinfo("1.png").file_size = 100
    dataset = Archive(path)
    tracemalloc.start()
    try:
        with pytest.raises(zipfile.BadZipFile, match="CRC"):
            dataset.read(path / "1.png")
        with pytest.raises(zipfile.BadZipFile, match="CRC"), dataset.open(path / "1.png") as file:
            file.read()  # as Pillow reads WebP
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\5\6" + bytes(18)])
def test_a_file_that_is_no_archive_or_holds_no_images_is_refused(content, tmp_path):
    Path(tmp_path / "images.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"^path should be .*\.zip (is neither|holds none)"):
        ImageFolder(str(tmp_path / "images.zip"))


def test_a_member_is_unpacked_once_however_it_is_read(tmp_path):
    content = noise(1000).tobytes() + bytes(2**26)
    with zipfile.ZipFile(tmp_path / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("1.png", content)
    place, began = Archive(tmp_path / "images.zip"), time.process_time()
    (path,) = (path for path, _ in place.walk())
    assert place.read(path) == content
    with place.open(path) as file:
        for _ in range(100):  # as a TIFF's header may jump
            file.seek(-8, os.SEEK_END)
            assert file.read() == bytes(8)
            file.seek(10)
            assert file.read(990) == content[10:1000]
            assert file.tell() == 1000
    assert time.process_time() - began < 5  # a copy of all, or all unpacked again, at each step takes 15 s and more
