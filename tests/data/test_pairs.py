"""Pairs of images, and two sets without pairs: what belongs together, what is drawn together, and what is refused."""

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp.batch import Batch
from ganexp.data import Degraded, Fake, Pairs, Separated, Streamed, Unpaired, load_cached
from ganexp.data.feed import to_range
from tests.data.samples import noise, zipped


def save(path, pixels, **settings):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **settings)


def folders(place, n=4, source=(8, 8), sample=(8, 8), names="{}.png", split=""):
    """Write sources and targets of noise, and return both, `(N, H, W, C)`."""
    images = []
    for i, (name, size) in enumerate((("sources", source), ("targets", sample))):
        pixels = np.roll(noise(n, *size, 3), i, 3) if size == (8, 8) else noise(n, *size, 3)
        for j, image in enumerate(pixels):
            save(place / name / split / names.format(j), image)
        images.append(pixels)
    return images


def as_pixels(dataset):
    """Return all sources and samples of a data set as pixels, `(N, H, W, C)`."""
    data = dataset.load()
    batch = dataset.derive(Batch(torch.stack([data[i] for i in range(len(data))])))
    return [images.permute(0, 2, 3, 1).numpy() for images in (batch.source, batch.values)]


def of_folders(place, **settings):
    return Pairs(sources=str(place / "sources"), targets=str(place / "targets"), **{"image_size": 8} | settings)


@pytest.mark.parametrize("names", ["{}.png", "deep/{}.bmp"])
@pytest.mark.parametrize("archived", [False, True])
def test_images_of_one_name_are_a_pair(names, archived, tmp_path):
    source, sample = folders(tmp_path, names=names)
    dataset = of_folders(tmp_path)
    if archived:
        places = (zipped(tmp_path / name) for name in ("sources", "targets"))
        dataset = Pairs(**dict(zip(("sources", "targets"), map(str, places), strict=True)), image_size=8)
    pairs = as_pixels(dataset)
    np.testing.assert_array_equal(pairs[0], source)
    np.testing.assert_array_equal(pairs[1], sample)
    assert dataset.paired
    assert dataset.held_out() is None


def test_extensions_of_a_pair_may_differ(tmp_path):
    """`a.b.png` comes before `a.png`, and `a.b.bmp` after `a.bmp` does not; the names decide, not the order."""
    for i, name in enumerate(["a.k", "a"]):
        save(tmp_path / "sources" / f"{name}.png", np.full((8, 8), 10 + i, np.uint8))
        save(tmp_path / "targets" / f"{name}.bmp", np.full((8, 8), 20 + i, np.uint8))
    source, sample = as_pixels(of_folders(tmp_path))
    assert sorted(source[:, 0, 0, 0]) == [10, 11]
    np.testing.assert_array_equal(source + 10, sample)


@pytest.mark.parametrize("half", ["left", "right"])
def test_a_picture_may_hold_both(half, tmp_path):
    pictures = noise(3, 8, 16, 3)
    for i, picture in enumerate(pictures):
        save(tmp_path / "pictures" / f"same.{('png', 'bmp', 'tif')[i]}", picture)
    pictures = pictures[[1, 0, 2]]  # in the order of their names
    source, sample = as_pixels(Pairs(path=str(tmp_path / "pictures"), half=half, image_size=8))
    left, right = pictures[:, :, :8], pictures[:, :, 8:]
    np.testing.assert_array_equal(source, left if half == "left" else right)
    np.testing.assert_array_equal(sample, right if half == "left" else left)


def test_halves_are_cut_alike(tmp_path):
    """Each half is cut to its own middle, and no pixel of the other half bleeds into it."""
    picture = np.zeros((8, 40, 3), np.uint8)
    picture[:, 6:14], picture[:, 26:34] = noise(8, 8, 3), 255 - noise(8, 8, 3)
    save(tmp_path / "pictures" / "wide.png", picture)
    source, sample = as_pixels(Pairs(path=str(tmp_path / "pictures"), image_size=8))
    np.testing.assert_array_equal(source[0], noise(8, 8, 3))
    np.testing.assert_array_equal(sample[0], 255 - noise(8, 8, 3))


@pytest.mark.parametrize(
    ("size", "image_size", "count"),
    [((8, 16), 8, 0), ((10, 20), 8, 0), ((8, 8), 8, 2), ((8, 12), 8, 2), ((8, 24), 8, 2), ((8, 24), (8, 12), 0)],
)
def test_pictures_that_may_be_no_two_halves_are_told(size, image_size, count, tmp_path, caplog):
    for i in range(2):
        save(tmp_path / "pictures" / f"{i}.png", noise(*size, 3))
    for _ in range(2):
        caplog.clear()
        load_cached(Pairs(path=str(tmp_path / "pictures"), image_size=image_size), tmp_path / "cache")
        warnings = [record.getMessage() for record in caplog.records if "proportions" in record.getMessage()]
        assert len(warnings) == bool(count)
        assert all(f": {count} of 2 pictures" in warning and "dataset.sources" in warning for warning in warnings)


def test_smaller_sources_are_kept_pixel_by_pixel(tmp_path):
    source, sample = folders(tmp_path, source=(4, 8), sample=(8, 16))
    dataset = of_folders(tmp_path, image_size=(8, 16), source_size=(4, 8))
    pairs = as_pixels(dataset)
    np.testing.assert_array_equal(pairs[0], source)
    np.testing.assert_array_equal(pairs[1], sample)
    assert (dataset.source_shape, dataset.shape) == ((3, 4, 8), (3, 8, 16))


def view(height, width):
    """Return a picture in this many pixels, each of which says where it lies: red from left to right, green downwards."""
    v, u = np.meshgrid((np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    return np.rint(255 * np.stack([u, v, u], 2)).astype(np.uint8)


def assert_same_places(source, sample, step):
    """Compare a source with the means of its sample, which symmetric filters do not move, but for the border and rounding."""
    means = sample.reshape(len(source), step, -1, step, 3).mean((1, 3))
    apart = (source - means)[1:-1, 1:-1]
    assert np.abs(apart).max() <= 1
    assert np.abs(apart.mean((0, 1))).max() < 0.75  # a pixel of a sample is 2.5 levels or more


@pytest.mark.parametrize("size", [(256, 256), (333, 500), (500, 333), (330, 1000), (403, 410), (1031, 300)])
@pytest.mark.parametrize("image_size", [(64, 64), (64, 96), (96, 64), (60, 44)])
def test_a_smaller_source_shows_the_same_part_of_the_picture(size, image_size, tmp_path):
    save(tmp_path / "targets" / "0.png", view(*size))
    save(tmp_path / "sources" / "0.png", view(*(round(side / 4) for side in size)))
    dataset = of_folders(tmp_path, image_size=image_size, source_size=tuple(side // 4 for side in image_size))
    (source,), (sample,) = as_pixels(dataset)
    assert_same_places(source, sample, 4)


def test_halves_show_the_same_part_whatever_their_size(tmp_path):
    save(tmp_path / "pictures" / "0.png", np.concatenate([view(333, 501)] * 2, 1))
    (source,), (sample,) = as_pixels(Pairs(path=str(tmp_path / "pictures"), image_size=64, source_size=16))
    assert_same_places(source, sample, 4)


def test_sources_may_be_grey_or_deep_or_have_an_alpha_channel(tmp_path):
    deep = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    clear = np.zeros((8, 8, 4), np.uint8)
    clear[:, :4, 3] = 255  # black on the left, and transparent on the right
    for i, pixels in enumerate((deep, clear)):
        save(tmp_path / "sources" / f"{i}.png", pixels)
        save(tmp_path / "targets" / f"{i}.png", noise(8, 8, 3))
    dataset = of_folders(tmp_path, source_channels=1)
    source, _ = as_pixels(dataset)
    assert dataset.source_shape == (1, 8, 8)
    np.testing.assert_allclose(source[0, ..., 0], deep / 257, atol=0.51)
    np.testing.assert_array_equal(source[1, :, :, 0], np.repeat([[0] * 4 + [255] * 4], 8, 0))


def test_a_pair_is_mirrored_together(tmp_path):
    folders(tmp_path, n=5)
    dataset = of_folders(tmp_path, source_channels=1)
    feed = Streamed(dataset.load(), 5, seed=1, flip=True, derive=dataset.derive)
    unflipped = as_pixels(dataset)
    source, sample = (to_range(torch.from_numpy(pixels).permute(0, 3, 1, 2), torch.float32) for pixels in unflipped)
    mirrored = 0
    for _ in range(4):
        batch = next(feed)
        for x, y in zip(batch.values, batch.source, strict=True):
            i, flipped = next((i, f) for i in range(5) for f in (0, 1) if torch.equal(x.flip(-1) if f else x, sample[i]))
            assert torch.equal(y.flip(-1) if flipped else y, source[i])
            mirrored += flipped
    assert 0 < mirrored < 20


def test_the_test_part_of_pairs_is_held_out(tmp_path):
    folders(tmp_path, split="train")
    _, sample = folders(tmp_path, n=2, split="test")
    dataset = of_folders(tmp_path)
    assert len(dataset.load()) == 4
    others = dataset.held_out()
    np.testing.assert_array_equal(as_pixels(others)[1], sample)
    assert len(dataset.load()) == 4
    for part, n in (("train", 3), ("val", 2)):
        for i, picture in enumerate(noise(n, 8, 16, 3)):
            save(tmp_path / "pictures" / part / f"{i}.png", picture)
    assert len(as_pixels(Pairs(path=str(tmp_path / "pictures"), image_size=8).held_out())[0]) == 2


def test_evenly_spaced_pairs_may_be_held_out(tmp_path):
    source, sample = folders(tmp_path)
    dataset = of_folders(tmp_path, hold_out=1)
    for subset, part in ((dataset, [0, 1, 3]), (dataset.held_out(), [2])):
        pairs = as_pixels(subset)
        np.testing.assert_array_equal(pairs[0], source[part])
        np.testing.assert_array_equal(pairs[1], sample[part])


def test_pairs_are_cached_and_a_broken_one_is_left_out(tmp_path, caplog):
    source, _ = folders(tmp_path)
    (tmp_path / "targets" / "1.png").write_bytes(b"no image")
    for _ in range(2):
        dataset = of_folders(tmp_path)
        data = load_cached(dataset, tmp_path / "cache")
        batch = dataset.derive(Batch(data))
        assert data.shape == (3, *dataset.loaded_shape) == (3, 6, 8, 8)
        np.testing.assert_array_equal(batch.source.permute(0, 2, 3, 1).numpy(), source[[0, 2, 3]])
    assert "1.png" in caplog.text
    with pytest.raises(OSError, match=r"1\.png"):
        load_cached(of_folders(tmp_path, strict=True), tmp_path / "cache")


def test_pairs_of_other_proportions_are_refused(tmp_path):
    folders(tmp_path, source=(8, 12))
    with pytest.raises(OSError, match=r"0\.png .*12×8 .*8×8"):
        of_folders(tmp_path).load()[0]


def test_images_without_a_partner_are_left_out_and_named(tmp_path, caplog):
    sources, targets = folders(tmp_path)
    save(tmp_path / "sources" / "1a.png", noise(8, 8, 3))
    save(tmp_path / "targets" / "lonely.png", noise(8, 8, 3))
    with pytest.raises(OSError, match=r"^2 images .*1a\.png.*lonely\.png.*strict=false"):
        of_folders(tmp_path, strict=True).load()
    data = of_folders(tmp_path)
    pairs = data.load()
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert all(word in record.getMessage() for word in ("1a.png", "lonely.png", "4 pairs"))
    expected = np.concatenate([sources, targets], 3).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(np.stack([pairs[i].numpy() for i in range(len(pairs))]), expected)


def test_folders_without_a_pair_and_equal_names_are_refused(tmp_path):
    folders(tmp_path)
    (tmp_path / "targets" / "0.png").rename(tmp_path / "targets" / "1.bmp")
    with pytest.raises(OSError, match=r"1\.(bmp|png) and .*1\.(bmp|png)"):
        of_folders(tmp_path).digest()
    for path in [*(tmp_path / "targets").iterdir()]:
        path.unlink()
    save(tmp_path / "targets" / "other.png", noise(8, 8, 3))
    with pytest.raises(OSError, match=r"^5 images .* 0 pairs"):
        load_cached(of_folders(tmp_path), tmp_path / "cache")


def test_what_names_no_pairs_is_refused(tmp_path):
    folders(tmp_path)
    for wrong in ({}, {"sources": str(tmp_path)}, {"path": str(tmp_path), "targets": str(tmp_path)}):
        with pytest.raises(ValueError, match="path should"):
            Pairs(**wrong)
    with pytest.raises(ValueError, match=r"^targets should be a folder"):
        Pairs(sources=str(tmp_path), targets=str(tmp_path / "missing"))
    with pytest.raises(ValueError, match=r"^source_size should"):
        of_folders(tmp_path, image_size=8, source_size=3)


def two_sets(place, a=5, b=3, names=("trainA", "trainB")):
    """Write one-coloured images: those of A are 0, 1, …, and those of B 100, 101, …."""
    for name, first, n in zip(names, (0, 100), (a, b), strict=True):
        for i in range(n):
            save(place / name / f"{i}.png", np.full((8, 8), first + i, np.uint8))
    return place


def companions(dataset):
    data = dataset.load()
    return [(int(data[i][0, 0, 0]), int(data[i][-1, 0, 0])) for i in range(len(data))]


@pytest.mark.parametrize(("a", "b"), [(5, 3), (3, 5), (4, 4)])
def test_each_round_has_every_image_with_other_companions(a, b, tmp_path):
    dataset = Unpaired(path=str(two_sets(tmp_path, a, b)), image_size=8, rounds=6)
    drawn, most = companions(dataset), max(a, b)
    assert len(drawn) == 6 * most
    rounds = [drawn[i : i + most] for i in range(0, len(drawn), most)]
    for drawn_pairs in rounds:
        for side, first, n in ((0, 0, a), (1, 100, b)):
            counts = np.bincount([pair[side] - first for pair in drawn_pairs], minlength=n)
            assert counts.max() - counts.min() <= 1
            assert counts.min() >= 1
    assert len({*map(tuple, rounds)}) > 3
    assert len({*drawn}) > most
    assert companions(Unpaired(path=str(tmp_path), image_size=8, rounds=6)) == drawn


def test_a_stack_is_its_own_source(tmp_path):
    dataset = Unpaired(path=str(two_sets(tmp_path)), image_size=8, channels=1)
    batch = next(Streamed(dataset.load(), 4, derive=dataset.derive))
    assert dataset.shape == dataset.source_shape == tuple(batch.values.shape[1:]) == (2, 8, 8)
    assert torch.equal(batch.source, batch.values)
    assert not dataset.paired


def test_the_test_parts_of_both_sets_are_held_out(tmp_path):
    place = two_sets(tmp_path / "one")
    assert Unpaired(path=str(place), image_size=8).held_out() is None
    two_sets(place, 2, 4, ("testA", "testB"))
    others = Unpaired(path=str(place), image_size=8).held_out()
    assert len(companions(others)) == 4
    assert {a for a, _ in companions(others)} == {0, 1}
    for name in "ab":
        two_sets(tmp_path / "two", 2, 2, (f"{name}/train", f"{name}/test"))
    dataset = Unpaired(a=str(tmp_path / "two" / "a"), b=str(tmp_path / "two" / "b"), image_size=8)
    assert {a for a, _ in companions(dataset)} == {0, 1}
    assert {a for a, _ in companions(dataset.held_out())} == {100, 101}


def test_each_set_is_cached_by_itself_and_its_broken_images_are_left_out(tmp_path):
    two_sets(tmp_path)
    (tmp_path / "trainA" / "2.png").write_bytes(b"no image")
    for _ in range(2):
        dataset = Unpaired(path=str(tmp_path), image_size=8, rounds=2)
        data = load_cached(dataset, tmp_path / "cache")
        assert {int(data[i][0, 0, 0]) for i in range(len(data))} == {0, 1, 3, 4}
        assert len(data) == 8
    assert len([*(tmp_path / "cache").glob("*.npy")]) == 2


def test_what_names_no_two_sets_is_refused(tmp_path):
    for wrong in ({}, {"a": str(tmp_path)}, {"path": str(tmp_path), "b": str(tmp_path)}):
        with pytest.raises(ValueError, match="path should"):
            Unpaired(**wrong)
    with pytest.raises(ValueError, match=r"^path should .*trainA"):
        Unpaired(path=str(tmp_path))
    two_sets(tmp_path)
    with pytest.raises(ValueError, match=r"^b should"):
        Unpaired(a=str(tmp_path / "trainA"), b=str(tmp_path / "missing"))
    two_sets(tmp_path, names=("testA", "other"))
    (tmp_path / "testB").mkdir()  # whose images would otherwise be missed only when they are first looked at
    (tmp_path / "testB" / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"^path should .*testB"):
        Unpaired(path=str(tmp_path))


def test_pairs_torn_apart_are_sources_of_one_half_and_samples_of_the_other(tmp_path):
    source, sample = folders(tmp_path, n=7)
    dataset = Separated(of=of_folders(tmp_path), rounds=3)
    data, whole = dataset.load(), [pixels.transpose(0, 3, 1, 2) for pixels in (source, sample)]
    batch = dataset.derive(Batch(torch.stack([data[i] for i in range(len(data))])))
    assert torch.equal(batch.source, batch.values)
    assert (len(data), dataset.shape, dataset.paired) == (12, (6, 8, 8), False)
    for part, (first, last), images in zip(batch.values.chunk(2, 1), ((0, 3), (3, 7)), whole, strict=True):
        assert {image.tobytes() for image in part.numpy()} == {image.tobytes() for image in images[first:last]}
    assert dataset.held_out() is None
    held_out = Separated(of=of_folders(tmp_path, hold_out=3)).held_out()
    stack = held_out.derive(Batch(torch.stack([*held_out.load()]))).values
    assert {image.tobytes() for image in stack[:, :3].numpy()} == {whole[0][1].tobytes()}


def test_a_grey_source_of_a_colour_image_is_repeated_and_what_has_no_pairs_is_refused():
    dataset = Separated(of=Degraded(of=Fake(image_size=8, n=4), how="edges"))
    x = to_range(dataset.load()[0][None], torch.float64)
    stack = dataset.derive(Batch(x)).values
    edges = dataset.of.derive(Batch(x[:, :3])).source
    assert torch.equal(stack[:, :3], edges.repeat(1, 3, 1, 1))
    small = Degraded(of=Fake(image_size=8, n=4), how="downscaled", enlarged=False)
    for wrong in (Fake(image_size=8, n=4), small, dataset):
        with pytest.raises(ValueError, match=r"^of should"):
            Separated(of=wrong)
