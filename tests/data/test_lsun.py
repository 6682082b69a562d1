"""LSUN, read from tiny databases made here."""

import builtins
import pickle

import lmdb
import numpy as np
import pytest
import torch

from ganexp.config.check import check
from ganexp.config.schema import ConfigError
from ganexp.data import LSUN, DecodingError, Streamed, load_cached
from tests.composing import composed
from tests.data.samples import noise
from tests.data.torchvision_sets import write_lsun

LAID_OUT = ["dataset=lsun", "generator.width=2", "discriminator.width=2"]


def square(images, side=8):
    """Cut out the middle of images `(N, side, W, 3)`."""
    left = (images.shape[2] - side) // 2
    return torch.from_numpy(images[:, :, left : left + side].transpose(0, 3, 1, 2).copy())


@pytest.fixture
def scenes(tmp_path):
    """Return what two categories should be read as: in the order of their keys."""
    expected = []
    for category, images in (("tower_train", noise(7, 8, 12, 3)), ("bedroom_train", 255 - noise(5, 8, 10, 3))):
        keys = write_lsun(tmp_path, category, images)
        expected.append(square(images[np.argsort(keys)]))
    return expected


@pytest.mark.parametrize("workers", [0, 1])
def test_the_images_are_those_of_the_database_in_the_order_of_its_keys(workers, scenes, tmp_path):
    dataset = LSUN(str(tmp_path), category="tower_train", image_size=8)
    assert dataset.shape == (3, 8, 8)
    assert torch.equal(load_cached(dataset, tmp_path / "cache", workers=workers), scenes[0])
    assert dataset.classes == 0
    with pytest.raises(ValueError, match=r"^category should be a list"):
        dataset.labels()


def test_several_categories_are_classes(scenes, tmp_path):
    dataset = LSUN(str(tmp_path), category=["tower_train", "bedroom_train"], image_size=8)
    assert torch.equal(torch.stack(list(map(dataset.load().__getitem__, range(12)))), torch.cat(scenes))
    assert dataset.classes == 2
    assert dataset.labels().tolist() == [0] * 7 + [1] * 5
    plan = check(
        composed(*LAID_OUT, f"data_root={tmp_path}", "dataset.category=[tower_train,bedroom_train]", "conditional=true")
    )
    assert plan.classes == 2
    with pytest.raises(ConfigError, match=r"^dataset=lsun has no class labels"):
        check(composed(*LAID_OUT, f"data_root={tmp_path}", "conditional=true"))


def test_while_one_process_reads_it_others_can(scenes, tmp_path):
    """LMDB refuses to open a database twice in a process, or after a fork."""
    dataset = LSUN(str(tmp_path), category="tower_train", image_size=8)
    here, forked, again = (
        Streamed(data, 4, workers=n) for data, n in ((dataset.load(), 0), (dataset.load(), 2), (dataset.load(), 0))
    )
    for _ in range(4):
        first = next(here).values
        assert torch.equal(next(forked).values, first)
        assert torch.equal(next(again).values, first)
    forked.close()


def test_nothing_is_written_or_unpickled(scenes, tmp_path, monkeypatch):
    """Torchvision's class unpickles `_cache_…` from the working directory."""
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    monkeypatch.setattr(pickle, "load", lambda *_: pytest.fail("a file was unpickled"))
    list(map(LSUN(".", category="tower_train").load().__getitem__, range(7)))
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_what_identifies_it_is_the_content_and_not_the_place(scenes, tmp_path):
    here = LSUN(str(tmp_path), category="tower_train")
    digest, fingerprint = here.digest(), here.fingerprint()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tower_train_lmdb").rename(tmp_path / "elsewhere" / "tower_train_lmdb")
    moved = LSUN(str(tmp_path / "elsewhere"), category="tower_train")
    assert moved.digest() == digest
    assert moved.fingerprint() != fingerprint
    write_lsun(tmp_path, "tower_train", noise(3, 8, 8, 3))
    assert here.digest() != digest
    (tmp_path / "tower_train_lmdb").rename(tmp_path / "tower")  # as the archives of objects unpack
    assert len(LSUN(str(tmp_path), category="tower").load()) == 3


def test_what_is_missing_is_said_before_anything_is_written(tmp_path, monkeypatch):
    where = f"data_root={tmp_path}"
    with pytest.raises(ConfigError) as refusal:
        check(composed(*LAID_OUT, where, "dataset.category=tower_val"))
    assert str(refusal.value) == (
        f"dataset=lsun: category=tower_val should be in {tmp_path}/tower_val_lmdb, and there is no data.mdb: LSUN cannot be "
        "downloaded automatically, so unpack the category's archive there, or name the folder that has it with data_root=…."
    )
    for wrong in ("''", "[]", "[a,a]", "../a", "/a"):
        with pytest.raises(ConfigError, match=r"^dataset=lsun: category should be"):
            check(composed(*LAID_OUT, where, f"dataset.category={wrong}"))
    with pytest.raises(ConfigError, match=r"^dataset\.category should be .*, not 3\.$"):
        check(composed(*LAID_OUT, where, "dataset.category=3"))
    write_lsun(tmp_path, "tower_val", noise(1, 8, 8, 3))
    original = builtins.__import__

    def without_lmdb(name, *rest):
        if name == "lmdb":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_lmdb)
    with pytest.raises(ValueError, match=r'lmdb, which is missing: pip install "ganexp\[lsun\]"$'):
        LSUN(str(tmp_path), category="tower_val")


def test_a_broken_database_is_named(scenes, tmp_path):
    dataset = LSUN(str(tmp_path), category="tower_train")
    data = dataset.load()
    with lmdb.open(str(tmp_path / "tower_train_lmdb"), map_size=2**22) as database, database.begin(write=True) as transaction:
        for key in data.keys[0]:
            transaction.put(bytes(key), b"no image")
    with pytest.raises(DecodingError, match=rf"{bytes(data.keys[0][0]).decode()} cannot be decoded"):
        data[0]
    with lmdb.open(str(tmp_path / "none_lmdb"), map_size=2**20):
        pass
    with pytest.raises(OSError, match=r"^the files of LSUN in .*none_lmdb hold no images"):
        LSUN(str(tmp_path), category="none").load()
    (tmp_path / "none_lmdb" / "data.mdb").write_bytes(b"not a database")
    with pytest.raises(OSError, match=r"^the files of LSUN in .*none_lmdb are broken"):
        LSUN(str(tmp_path), category="none").load()
