"""Files of samples are read back by NumPy, Pillow and tarfile, and are the generator's."""

import tarfile

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp.facts import UserError
from ganexp.sampling.files import Series, write_npz, write_pngs, write_shards
from tests.full import on_a_full_disk
from tests.sampling import tiny_generators as tiny


def expected(generator, indices, **how):
    """Return pixels by a formula of their own, `(N, H, W, C)`."""
    images = np.concatenate([generator.sample(1, first=index, **how).numpy() for index in indices]).astype(np.float64)
    return np.clip((images.transpose(0, 2, 3, 1) + 1) / 2 * 255, 0, 255)


def opened(file):
    with Image.open(file) as image:
        return np.asarray(image)


def same(found, wanted):
    np.testing.assert_allclose(found.astype(np.float64), wanted, atol=0.5 + 1e-3)


@pytest.mark.parametrize("channels", [1, 3])
def test_pngs_are_the_samples_and_what_was_interrupted_goes_on(tmp_path, channels):
    G = tiny.images(channels=channels)
    told = []
    series = Series(G, batch_size=3, advance=told.append)
    assert write_pngs(series, range(4), tmp_path / "x") == 4
    assert told == [3, 1]
    (tmp_path / "x" / "000000002.png").unlink()
    kept = (tmp_path / "x" / "000000001.png").stat().st_mtime_ns
    assert write_pngs(series, range(6), tmp_path / "x") == 3
    assert (tmp_path / "x" / "000000001.png").stat().st_mtime_ns == kept
    files = sorted((tmp_path / "x").glob("*.png"))
    assert [file.stem for file in files] == [f"{index:09d}" for index in range(6)]
    same(np.stack([opened(file).reshape(16, 16, channels) for file in files]), expected(G, range(6)))


def test_an_npz_is_written_batch_by_batch_and_read_by_numpy(tmp_path):
    G = tiny.images(3, channels=3)
    write_npz(Series(G, batch_size=4), range(10), tmp_path / "deep" / "x.npz")
    with np.load(tmp_path / "deep" / "x.npz") as found:
        assert found["arr_0"].dtype == np.uint8
        same(found["arr_0"], expected(G, range(10)))
        np.testing.assert_array_equal(found["arr_1"], np.arange(10) % 3)
    write_npz(Series(tiny.points(), batch_size=4), range(10), tmp_path / "points.npz")
    with np.load(tmp_path / "points.npz") as found:
        np.testing.assert_allclose(found["arr_0"], tiny.points().sample(10).numpy(), atol=1e-6)
        assert list(found) == ["arr_0"]


def test_shards_hold_every_index_once_and_whole_ones_are_kept(tmp_path):
    G = tiny.images(3)
    series = Series(G, batch_size=3, label=None)
    assert write_shards(series, range(5, 18), tmp_path, shard_size=5) == 3
    before = {path: path.read_bytes() for path in tmp_path.glob("*.tar")}
    (tmp_path / "samples-000001.tar").unlink()
    assert write_shards(series, range(5, 18), tmp_path, shard_size=5) == 1
    assert {path: path.read_bytes() for path in tmp_path.glob("*.tar")} == before
    images, classes = {}, {}
    for path in sorted(before):
        with tarfile.open(path) as shard:
            for name in shard.getnames():
                index, kind = name.split(".")
                file = shard.extractfile(name)
                (images if kind == "png" else classes)[int(index)] = opened(file) if kind == "png" else file.read()
    assert list(images) == [*range(5, 18)]
    assert classes == {index: str(index % 3).encode() for index in range(5, 18)}
    same(np.stack([*images.values()])[..., None], expected(G, range(5, 18)))


def test_nothing_is_overwritten_without_being_told(tmp_path):
    G, other, broken = tiny.images(), tiny.images(), tiny.images()
    next(other.network.parameters()).add_(1)
    next(broken.network.parameters()).fill_(torch.nan)
    write_pngs(Series(G), range(2), tmp_path / "x")
    before = {path: path.read_bytes() for path in (tmp_path / "x").iterdir()}
    for series, said in {
        Series(G, seed=1): "seed",
        Series(other): "generator",
        Series(G, truncation=0.5): "truncation",
    }.items():
        with pytest.raises(UserError, match=rf"x holds other samples \(not the same {said}\): add --overwrite"):
            write_pngs(series, range(2), tmp_path / "x")
    assert {path: path.read_bytes() for path in (tmp_path / "x").iterdir()} == before
    (tmp_path / "x" / "thesis.txt").touch()
    write_pngs(Series(G), [*range(5), 10**9, 2**40], tmp_path / "x")
    assert write_pngs(Series(G, seed=1), range(2), tmp_path / "x", overwrite=True) == 2
    left = sorted(path.name for path in (tmp_path / "x").iterdir())
    assert left == ["000000000.png", "000000001.png", "samples.json", "thesis.txt"]  # none of the old ones
    same(opened(tmp_path / "x" / "000000000.png")[None, ..., None], expected(G, [0], seed=1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    (tmp_path / "file").touch()
    for call, said in {
        (lambda: write_pngs(Series(G), range(2), tmp_path / "mine")): "mine holds something else: add --overwrite",
        (lambda: write_pngs(Series(G), range(2), tmp_path / "file")): "file is a file: name a folder",
        (lambda: write_npz(Series(G), range(2), tmp_path / "file")): "file is there already: add --overwrite",
        (lambda: write_shards(Series(G), range(2), tmp_path / "y", shard_size=0)): "a shard should have 1 or more",
        (lambda: write_pngs(Series(G, truncation=-1), range(2), tmp_path / "y")): "truncation should be a bound above 0",
        (lambda: write_pngs(Series(G, label=1), range(2), tmp_path / "y")): "unconditional",
        (lambda: write_shards(Series(G), range(2**63 - 1, 2**63 + 1), tmp_path / "y")): "there is none at 92",
        (lambda: write_pngs(Series(broken), range(2), tmp_path / "y")): "not finite",
        (lambda: write_pngs(Series(tiny.points()), range(2), tmp_path / "y")): "samples of shape 2 are no pictures",
        (lambda: write_pngs(Series(tiny.images(channels=2)), range(2), tmp_path / "y")): "shape 2×16×16 are no pictures",
    }.items():
        with pytest.raises(UserError, match=said):
            call()
    assert not (tmp_path / "y").exists()


def test_on_a_full_disk_the_file_is_named_and_nothing_unfinished_is_left(tmp_path):
    G = tiny.images(channels=3)
    said = on_a_full_disk(write_pngs, Series(G), range(2), tmp_path / "x", room=400)
    assert said == f"OSError: [Errno 27] File too large: '{tmp_path / 'x' / '000000000.png'}'"
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["samples.json"]
    said = on_a_full_disk(write_npz, Series(G), range(2), tmp_path / "y.npz", room=400)
    assert said == f"OSError: [Errno 27] File too large: '{tmp_path / 'y.npz'}'"
    assert [*tmp_path.iterdir()] == [tmp_path / "x"]
