"""Images in tar files, wherever they lie, against the pixels that were put there."""

import errno
import gzip
import json
import logging
import tarfile
import zipfile

import fsspec
import numpy as np
import pytest
import torch

from ganexp.data import ImageFolder, Shards, Streamed, load_cached, tar_index
from ganexp.data.corrupt import TolerantDataset
from ganexp.data.decoding import DecodingError
from ganexp.data.storage import unfolded
from ganexp.distributed.processes import Processes
from tests.data.samples import noise
from tests.data.tars import png, shards, tar, written


def pixels(data):
    return torch.stack([data[i] for i in range(len(data))]).permute(0, 2, 3, 1).numpy()


def test_braces_are_unfolded_as_in_a_shell():
    assert list(unfolded("s3://b/{a,b}-{08..11}.tar")) == [f"s3://b/{a}-{n:02d}.tar" for a in "ab" for n in (8, 9, 10, 11)]
    assert list(unfolded("{9..11}")) == ["9", "10", "11"]
    assert list(unfolded("{0..10}")) == [str(n) for n in range(11)]
    assert list(unfolded("plain.tar")) == ["plain.tar"]


def test_images_and_labels_are_those_that_were_put_there(tmp_path):
    pattern, images = written(tmp_path / "shards")
    for path in (pattern, pattern.replace("*", "{000..002}"), [pattern.replace("*", f"00{i}") for i in range(3)]):
        dataset = Shards(path, image_size=8)
        np.testing.assert_array_equal(pixels(dataset.load()), images)
        assert dataset.labels().tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
        assert dataset.classes == 3
        assert torch.equal(torch.stack(dataset.load().__getitems__([7, 0, 9])), torch.stack([*dataset.load()])[[7, 0, 9]])


def test_they_are_the_same_from_memory_as_from_a_disk(tmp_path):
    pattern, images = written(tmp_path / "shards")
    storage = fsspec.filesystem("memory")
    for path in sorted((tmp_path / "shards").iterdir()):
        storage.pipe(f"/bucket/{path.name}", path.read_bytes())
    there, here = Shards("memory://bucket/train-*.tar", image_size=8), Shards(pattern, image_size=8)
    np.testing.assert_array_equal(pixels(there.load()), images)
    assert there.digest() == here.digest()
    assert there.fingerprint() != here.fingerprint()
    assert torch.equal(load_cached(there, tmp_path / "cache", place="resident"), torch.stack([*here.load()]))
    copied = Shards("filecache::memory://bucket/train-*.tar", image_size=8)
    np.testing.assert_array_equal(pixels(copied.load()), images)
    storage.rm("/bucket", recursive=True)


class Second(Processes):
    """The second of two processes."""

    count, rank = 2, 1

    def own(self, whole):
        return whole[len(whole) // 2 :]


def test_a_process_reads_its_own_share_and_nothing_else(tmp_path, monkeypatch):
    pattern, _ = written(tmp_path / "shards")
    data = Shards(pattern, image_size=8).load()
    whole, share = Streamed(data, 4, seed=5), Streamed(data, 4, seed=5, processes=Second())
    wanted = [next(whole).values[2:] for _ in range(7)]
    read = []
    ranges = data.storage.ranges
    monkeypatch.setattr(data.storage, "ranges", lambda *conditions: read.append(conditions) or ranges(*conditions))
    for batch in wanted:
        assert torch.equal(next(share).values, batch)
    assert [len(paths) for paths, _, _ in read[:7]] == [2] * 7, "one request for the share of each batch"
    share.seek(3)
    assert torch.equal(next(share).values, wanted[3])
    share.close()
    again = Streamed(data, 4, seed=5, workers=2)
    again.seek(2)
    assert torch.equal(next(again).values[2:], wanted[2])
    again.close()


def test_labels_are_found_in_cls_and_in_json(tmp_path):
    one = png(np.zeros((8, 8, 3), np.uint8))
    members = [
        ("a/1.jpg", one), ("a/1.json", json.dumps({"class": 4}).encode()),
        ("2.json", b'{"class": 1}'), ("2.PNG", one), ("2.cls", b"3\n"),
        ("b/1.png", one), ("b/1.cls", b"0"),
        ("b/1.seg.png", one), ("b/1.webp", one), ("b/1.txt", b"a caption"), ("._1.png", b"")
    ]  # fmt: skip
    (tmp_path / "x.tar").write_bytes(tar(members))
    dataset = Shards(str(tmp_path / "x.tar"), image_size=8, label="class")
    assert dataset.labels().tolist() == [4, 3, 0]
    kinds = [".seg.png", ".txt", "further image of a sample", "hidden"]
    assert dataset._index.skipped.tolist() == kinds
    assert Shards(str(tmp_path / "x.tar"), image_size=8).classes == 0
    with pytest.raises(ValueError, match=r"1 of 3 .*x.tar/a/1.jpg"):
        Shards(str(tmp_path / "x.tar"), image_size=8).labels()


def test_members_that_are_far_too_large_are_skipped_unread(tmp_path):
    one = png(np.zeros((8, 8, 3), np.uint8))
    with (tmp_path / "x.tar").open("wb") as file:  # the large ones are holes
        for name, content, size in [("1.png", one, len(one)), ("1.cls", b"3", 2**20 + 1), ("2.png", one, 2**28 + 1)]:
            info = tarfile.TarInfo(name)
            info.size = size
            file.write(info.tobuf())
            begin = file.tell()
            file.write(content)
            file.seek(begin + -(-size // 512) * 512)
        file.write(bytes(1024))
    dataset = Shards(str(tmp_path / "x.tar"), image_size=8)
    assert (len(dataset.load()), dataset.classes) == (1, 0)
    assert dataset._index.skipped.tolist() == [".cls larger than 1 MiB", "larger than 256 MiB"]


def test_braces_that_stand_for_more_shards_than_anybody_has_are_refused_unlisted(tmp_path):
    assert next(iter(unfolded("{0..99999999999}{0..9}"))) == "00"
    for path in ("x-{0..100000}.tar", ["x-{0..99999}.tar", "y.tar"]):
        with pytest.raises(ValueError, match=r"^path should name at most 100,000 shards"):
            Shards(path, image_size=8)


def test_the_list_is_kept_until_a_shard_changes(tmp_path, monkeypatch):
    pattern, images = written(tmp_path / "shards")
    assert len(Shards(pattern, image_size=8).load()) == 10
    monkeypatch.setattr("ganexp.data.tar_index.listed", lambda *_: pytest.fail("listed again"))
    np.testing.assert_array_equal(pixels(Shards(pattern, image_size=8).load()), images)
    monkeypatch.undo()
    (tmp_path / "shards" / "train-000.tar").write_bytes(shards(3)[0][0])
    assert len(Shards(pattern, image_size=8).load()) == 9


def test_a_list_that_cannot_be_kept_is_not_made_twice(tmp_path, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    pattern, images = written(tmp_path / "shards")
    monkeypatch.setattr(np, "savez", full)
    made = []
    monkeypatch.setattr(
        "ganexp.data.tar_index._listed", lambda *args, listed=tar_index._listed: made.append(1) or listed(*args)
    )
    np.testing.assert_array_equal(pixels(Shards(pattern, image_size=8).load()), images)
    assert made == [1]
    assert "is not kept" in caplog.text


def test_batches_are_read_together_also_while_a_set_is_decoded_as_a_whole(tmp_path):
    pattern, _ = written(tmp_path / "shards")
    data = Shards(pattern, image_size=8).load()
    asked, ranges = [], data.storage.ranges
    data.storage.ranges = lambda paths, *rest: asked.append(len(paths)) or ranges(paths, *rest)
    images, corrupt = TolerantDataset(data).__getitems__([3, 0, 7])
    assert (len(images), corrupt, asked) == (3, {}, [3])


def test_shards_of_one_name_in_two_archives_are_not_taken_for_one(tmp_path):
    for name, count in [("a", 2), ("b", 3)]:
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as archive:
            archive.writestr("x.tar", shards(count)[0][0])
    one, other = (f"zip://x.tar::{tmp_path}/{name}.zip" for name in "ab")
    assert len(Shards([one], image_size=8).load()) == 2
    with pytest.raises(ValueError, match="in one place"):
        Shards([one, other])


def test_what_is_no_image_is_named_and_left_out_or_refused(tmp_path, caplog):
    members = [
        ("0.png", png(np.zeros((8, 8, 3), np.uint8))),
        ("1.png", b"no image"),
        ("2.png", png(np.ones((4, 9, 3), np.uint8))),
    ]
    (tmp_path / "x.tar").write_bytes(tar(members))
    with caplog.at_level(logging.WARNING):
        assert len(Shards(str(tmp_path / "x.tar"), image_size=8).load()) == 2
    assert "1 of 3 images are skipped: " in caplog.text
    assert "x.tar/1.png is no image" in caplog.text
    assert "1 of 2 images are smaller than 8×8 pixels" in caplog.text
    with pytest.raises(OSError, match=r"x.tar/1.png is no image"):
        Shards(str(tmp_path / "x.tar"), image_size=8, strict=True).load()


def test_images_that_are_not_square_are_those_of_the_folder(tmp_path, caplog):
    images = noise(3, 20, 30, 3)
    (tmp_path / "x.tar").write_bytes(tar([(f"{i}.png", png(image)) for i, image in enumerate(images)]))
    (tmp_path / "folder").mkdir()
    for i, image in enumerate(images):
        (tmp_path / "folder" / f"{i}.png").write_bytes(png(image))
    for size, count in {(8, 16): 0, (20, 32): 3, (32, 8): 3}.items():
        caplog.clear()
        found, expected = (
            one.load()
            for one in (
                Shards(str(tmp_path / "x.tar"), image_size=size),
                ImageFolder(str(tmp_path / "folder"), image_size=size),
            )
        )
        assert all(torch.equal(found[i], expected[i]) for i in range(3))
        assert caplog.text.count("3 of 3 images are smaller") == 2 * (count > 0)


def test_a_broken_image_is_left_out_of_a_set_that_is_decoded_as_a_whole(tmp_path):
    contents, images = shards(3, side=32)
    broken = contents[0].replace(png(images[1])[200:600], bytes(400))
    (tmp_path / "x.tar").write_bytes(broken)
    dataset = Shards(str(tmp_path / "x.tar"), image_size=32)
    np.testing.assert_array_equal(pixels(load_cached(dataset, tmp_path / "cache", place="resident")), images[[0, 2]])
    assert dataset.labels().tolist() == [0, 2]


@pytest.mark.parametrize("cut", [5000, 512 * 4, 700])
def test_a_shard_that_is_cut_off_is_not_taken_for_a_smaller_one(cut, tmp_path):
    (content, *_), _ = shards(4, side=32)
    (tmp_path / "x.tar").write_bytes(content[:cut])
    with pytest.raises(OSError, match=r"^the shard .*x.tar is no tar file"):
        Shards(str(tmp_path / "x.tar")).load()


def test_what_is_wrong_with_shards_is_said_in_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "x.tar").write_bytes(gzip.compress(shards(4)[0][0]))
    (tmp_path / "none.tar").write_bytes(tar([("a.txt", b"")]))
    for path, said in [("x.tar", "is no tar file that can be read"), ("none.tar", "has no images: their names")]:
        with pytest.raises(OSError, match=said):
            Shards(str(tmp_path / path)).load()
    with pytest.raises(OSError, match=r"the shard .*y.tar is not there"):
        Shards(str(tmp_path / "{x,y}.tar")).load()
    for path, said in [
        (str(tmp_path / "y-*.tar"), "and .* matches none"),
        (str(tmp_path / "y.tar"), "and .* matches none"),
        ("~nobody-of-that-name/y.tar", "and .* matches none"),
        ("dir:///tmp", "cannot be opened by fsspec"),
        ("nowhere://x.tar", "cannot be opened by fsspec .Protocol not known: nowhere.$"),
        ([str(tmp_path / "x.tar"), "memory://x.tar"], "in one place, such as one host or archive"),
    ]:
        with pytest.raises(ValueError, match=said):
            Shards(path)
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(ValueError, match=r'the package fsspec, which is missing: pip install "ganexp\[shards\]"$'):
        Shards("x.tar")


def test_storage_that_fails_is_not_an_image_that_is_broken(tmp_path):
    pattern, _ = written(tmp_path / "shards")
    dataset = Shards(pattern, image_size=8)
    data = dataset.load()
    (tmp_path / "shards" / "train-001.tar").unlink()
    with pytest.raises(DecodingError, match=r"train-001.tar/0004.png cannot be read \("):
        TolerantDataset(data).__getitems__([3, 4])
    with pytest.raises(OSError, match=r"^the shard .*train-001.tar is not there$"):
        load_cached(dataset, tmp_path / "cache", place="resident")
