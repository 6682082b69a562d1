"""Images that would have to be enlarged: counted from their headers, and refused where the set is strict."""

import struct

import pytest
from PIL import Image, ImageFile

from ganexp.config.build import build
from ganexp.data import ImageFolder, headers, load_cached
from ganexp.facts import UserError
from tests.composing import composed
from tests.data.samples import zipped

SIZES = [(8, 8), (7, 40), (40, 7), (100, 9), (8, 200), (3, 3)]
"""Three of them have a side below 8."""


@pytest.fixture
def folder(tmp_path):
    for i, size in enumerate(SIZES):
        path = tmp_path / "images" / "abc"[i % 3] / f"{i}.{'png' if i % 2 else 'tif'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size).save(path)
    (tmp_path / "images" / "a" / "broken.png").write_bytes(b"not a png")
    return tmp_path / "images"


@pytest.mark.parametrize("place", [str, zipped])
@pytest.mark.parametrize("feed", ["resident", "streamed"])
def test_smaller_images_are_counted_each_time_without_decoding_them(place, feed, folder, tmp_path, caplog, monkeypatch):
    path = str(place(folder))
    for cached in (False, feed == "resident"):
        caplog.clear()
        with monkeypatch.context() as patched:
            if cached or feed == "streamed":
                patched.setattr(Image.Image, "load", lambda *_: pytest.fail("decoded"))
            load_cached(ImageFolder(path, image_size=8), tmp_path / "cache", place=feed)
        (sentence,) = [record.getMessage() for record in caplog.records if "are smaller" in record.getMessage()]
        assert sentence.startswith(f"{path}: 3 of 7 images are smaller than 8×8 pixels, b/1.png (7×40) among them")


def test_images_that_are_large_enough_are_not_mentioned(folder, tmp_path, caplog):
    (folder / "a" / "broken.png").unlink()
    load_cached(ImageFolder(str(folder), image_size=3, strict=True), tmp_path / "cache")
    load_cached(ImageFolder(str(folder), image_size=3), tmp_path / "cache")
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_strict_refuses_them_decoded_or_not(folder, tmp_path):
    for _ in range(2):  # the second time, the images are in the cache
        with pytest.raises(OSError, match=r": 3 of 7 .* b/1\.png \(7×40\)"):
            load_cached(ImageFolder(str(folder), image_size=8, strict=True), tmp_path / "cache")
        load_cached(ImageFolder(str(folder), image_size=8), tmp_path / "cache")


@pytest.mark.parametrize("kind", ["jpg", "png", "tif", "webp"])
def test_images_are_as_large_as_they_are_turned_to(kind, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    Image.new("RGB", (8, 16)).save(tmp_path / f"0.{kind}", exif=exif)

    def load(image_size):
        return ImageFolder(str(tmp_path), image_size=image_size, strict=True).load()

    assert len(load((8, 16))) == 1
    with pytest.raises(OSError, match=r"smaller than 8×16 pixels, .* \(16×8\) among them"):
        load((16, 8))


def test_a_run_is_refused_before_anything_is_written(folder, tmp_path):
    cfg = composed(
        "dataset=image_folder", f"dataset.path={folder}", "dataset.image_size=16", "dataset.strict=true", "generator.width=2"
    )
    with pytest.raises(UserError, match=r"^dataset: .* 6 of 7 .*strict=false\.$"):
        build(cfg, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_of_many_some_are_looked_at(folder, caplog, monkeypatch):
    monkeypatch.setattr(headers, "MOST_HEADERS", 4)
    (folder / "a" / "broken.png").unlink()
    assert ImageFolder(str(folder), image_size=8).digest()  # a/0, b/1, c/2 of six, as they are sorted
    assert "2 of 3 images looked at are smaller" in caplog.text
    assert [len(headers.sample(range(n))) for n in (0, 1, 4, 5, 8, 9, 1000)] == [0, 1, 4, 3, 4, 3, 4]


def test_a_header_may_stand_at_the_end_of_a_file_or_in_the_middle(tmp_path, monkeypatch):
    Image.new("L", (400, 400)).save(tmp_path / "plain.tif")
    content = (tmp_path / "plain.tif").read_bytes()
    (start,) = struct.unpack("<I", content[4:8])
    length = 2 + 12 * struct.unpack("<H", content[start : start + 2])[0] + 4
    moved = content[:4] + struct.pack("<I", len(content)) + content[8:] + content[start : start + length]
    (tmp_path / "plain.tif").write_bytes(moved)
    monkeypatch.setattr(ImageFile, "MAXBLOCK", 1 << 18)  # Pillow before 13 writes no header that is longer
    Image.new("L", (400, 400)).save(tmp_path / "thumbnail.jpg", comment=b"x" * 60000, exif=b"Exif\0\0" + b"x" * 60000)
    files = sorted(tmp_path.iterdir())
    assert [size for _, size in headers.smaller(headers.read(files, lambda path: path.open("rb")), (401, 401))] == [
        (400, 400)
    ] * 2
