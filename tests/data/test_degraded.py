"""Sources that are made from images: what they are, that they follow from their own image alone, and what is kept."""

import numpy as np
import pytest
import torch

from ganexp.batch import Batch
from ganexp.data import Degraded, Digits, Fake, Itself, Resident, Ring, Streamed, load_cached
from ganexp.data.dataset import Dataset
from ganexp.data.decoding import DecodingError
from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, Misfit
from tests.data.samples import Items, noise

PIXELS = torch.from_numpy(noise(6, 3, 12, 16))
X = PIXELS.double() / 127.5 - 1


class Held(Dataset):
    """Images in memory, with labels, of which some are corrupt."""

    shape, classes, class_names, strict = (3, 12, 16), 2, ("one", "other"), False

    def __init__(self, pixels=PIXELS, *, is_here=True):
        self.pixels, self.here = pixels, is_here

    def load(self):
        return self.pixels

    def labels(self):
        return torch.arange(len(self.pixels)) % 2

    def fingerprint(self):
        return len(self.pixels)

    def digest(self):
        return f"held-{len(self.pixels)}"

    def held_out(self):
        return Held(255 - self.pixels[:2], is_here=False)

    @property
    def is_here(self):
        return self.here

    def skip(self, corrupt):
        self.pixels = self.pixels[[i for i in range(len(self.pixels)) if i not in corrupt]]


def source(how, x=X, **settings):
    dataset = Degraded(of=Held(), how=how, **settings)
    batch = Batch(x, (torch.arange(len(x)),))
    derived = dataset.derive(batch)
    assert derived.values is x
    assert derived.conditions is batch.conditions
    assert derived.source.shape[1:] == dataset.source_shape
    return derived.source.numpy()


def test_downscaled_sources_are_means():
    means = X.numpy().reshape(6, 3, 3, 4, 4, 4).mean((3, 5))
    np.testing.assert_allclose(source("downscaled", enlarged=False), means, atol=1e-14)
    np.testing.assert_allclose(source("downscaled"), means.repeat(4, 2).repeat(4, 3), atol=1e-14)


def test_edges_are_where_the_image_changes():
    x, wanted = X.numpy(), np.ones((6, 1, 12, 16))
    for i, row, column in np.ndindex(6, 12, 16):
        here = x[i, :, row, column]
        right, below = x[i, :, row, min(column + 1, 15)] - here, x[i, :, min(row + 1, 11), column] - here
        if np.sqrt((right**2 + below**2).mean()) > 0.9:
            wanted[i, 0, row, column] = -1
    assert 0.2 < (wanted < 0).mean() < 0.8
    np.testing.assert_array_equal(source("edges", threshold=0.9), wanted)


def test_grey_sources_are_the_luma():
    np.testing.assert_allclose(source("grey")[:, 0], np.einsum("bcij,c", X.numpy(), [0.299, 0.587, 0.114]), atol=2e-4)


@pytest.mark.parametrize(
    ("hole", "rows", "columns"), [(0.5, (3, 9), (4, 12)), (1.0, (0, 12), (0, 16)), (0.25, (4, 8), (6, 10))]
)
def test_the_middle_is_masked(hole, rows, columns):
    wanted = X.numpy().copy()
    wanted[:, :, slice(*rows), slice(*columns)] = 0
    np.testing.assert_array_equal(source("masked", hole=hole), wanted)


def test_the_middle_of_odd_sides_is_symmetric():
    x = torch.ones(1, 1, 5, 7)
    source = Degraded(of=Fake(image_size=8), how="masked", hole=0.4).derive(Batch(x)).source
    assert torch.equal(source, source.flip(2, 3))
    assert 0 < source.sum() < x.sum()


def test_noise_is_gaussian_and_independent():
    """Of 3456 numbers, means, variances, fourth moments and correlations to four standard errors."""
    unit = (source("noisy", noise=0.3) - X.numpy()) / 0.3
    n = unit.size
    assert abs(unit.mean()) < 4 / n**0.5
    assert abs((unit**2).mean() - 1) < 4 * (2 / n) ** 0.5
    assert abs((unit**4).mean() - 3) < 4 * (96 / n) ** 0.5
    rows = unit.reshape(6, -1)
    assert np.abs(np.corrcoef(rows) - np.eye(6)).max() < 4 / rows.shape[1] ** 0.5
    assert abs((rows[:, 1:] * rows[:, :-1]).mean()) < 4 / n**0.5


def test_noise_follows_from_the_image_alone():
    alone, together = source("noisy", X[2:3]), source("noisy")
    np.testing.assert_array_equal(alone[0], together[2])
    other = X.clone()
    other[2, 0, 0, 0] += 1 / 127.5 if other[2, 0, 0, 0] < 0 else -1 / 127.5
    assert (source("noisy", other)[2] - other[2].numpy() != together[2] - X[2].numpy()).mean() > 0.99


def test_images_are_their_own_sources():
    dataset = Itself(of=Held())
    assert dataset.source_shape == dataset.shape == (3, 12, 16)
    assert torch.equal(dataset.derive(Batch(X)).source, X)


@pytest.mark.parametrize("how", ["noisy", "edges"])
@pytest.mark.parametrize("workers", [0, 1])
def test_sources_are_the_same_wherever_the_data_lie(how, workers):
    dataset, labels = Degraded(of=Held(), how=how), Held().labels()
    settings = {"seed": 3, "flip": True, "labels": labels, "derive": dataset.derive}
    resident, streamed = Resident(PIXELS, 4, **settings), Streamed(Items(PIXELS), 4, **settings, workers=workers)
    plain = Resident(PIXELS, 4, seed=3, flip=True, labels=labels)
    batches = []
    for _ in range(7):
        batch, other, x = next(resident), next(streamed), next(plain)
        batches.append(batch)
        assert torch.equal(batch.values, x.values)
        assert torch.equal(batch.conditions[0], x.conditions[0])
        assert torch.equal(batch.source, other.source)
        assert torch.equal(batch.source, dataset.derive(x).source)
    streamed.close()
    resident.seek(5)
    assert torch.equal(next(resident).source, batches[5].source)


def test_each_process_gets_the_sources_of_its_samples():
    class One(Processes):
        def __init__(self, rank):
            self.count, self.rank = 2, rank

        def own(self, x):
            return x[self.rank * len(x) // 2 : (self.rank + 1) * len(x) // 2]

    derive = Degraded(of=Held(), how="noisy").derive
    whole = Resident(PIXELS, 4, derive=derive)
    feeds = [Resident(PIXELS, 4, derive=derive, processes=One(rank)) for rank in (0, 1)]
    for _ in range(4):
        assert torch.equal(next(whole).source, torch.cat([next(feed).source for feed in feeds]))


@pytest.mark.parametrize("make", [lambda of: Degraded(of=of, how="edges"), lambda of: Itself(of=of)])
def test_all_else_is_the_other_sets(make):
    of = Held()
    dataset = make(of)
    assert (dataset.classes, dataset.class_names, dataset.is_here) == (2, ("one", "other"), True)
    assert torch.equal(dataset.labels(), of.labels())
    assert dataset.digest() == of.digest()
    assert torch.equal(dataset.load(), PIXELS)
    others = dataset.held_out()
    assert type(others) is type(dataset)
    assert torch.equal(others.load(), 255 - PIXELS[:2])
    assert not others.is_here
    assert others.source_shape == dataset.source_shape
    assert torch.equal(dataset.load(), PIXELS)
    of.skip({1: "broken"})  # as the cache does, which reads the other set by itself
    assert torch.equal(dataset.load(), PIXELS[[0, 2, 3, 4, 5]])
    assert len(dataset.labels()) == 5
    assert make(Digits()).held_out() is None
    with pytest.raises(Misfit):
        make(Fake()).check(Facts(shape=(3, 32, 32), conditional=True))


@pytest.mark.parametrize("listed", [False, True])
def test_evenly_spaced_images_may_be_held_out(listed, tmp_path):
    of = Held()
    if listed:
        of.load, of.fingerprint = lambda: Items(PIXELS), lambda: None
    dataset = Degraded(of=of, how="edges", hold_out=2)
    others = dataset.held_out()
    for subset, part in ((dataset, [0, 2, 3, 5]), (others, [1, 4])):
        data = load_cached(subset, tmp_path)
        assert torch.equal(torch.stack([*map(data.__getitem__, range(len(data)))]), PIXELS[part])
        assert torch.equal(subset.labels(), of.labels()[part])
        assert torch.equal(next(Streamed(data, 2)).values, next(Resident(PIXELS[part], 2)).values)
    assert others.held_out() is None
    assert len({of.digest(), dataset.digest(), others.digest()}) == 3
    assert Degraded(of=Fake(), hold_out=2).digest() == ""
    with pytest.raises(OSError, match="hold_out"):
        Itself(of=of, hold_out=6).load()


def test_the_other_set_is_cached_once(tmp_path):
    for make in (
        Held,
        lambda: Degraded(of=Held(), how="edges"),
        lambda: Degraded(of=Held(), how="noisy"),
        lambda: Itself(of=Held()),
    ):
        assert torch.equal(load_cached(make(), tmp_path), PIXELS)
    assert len([*tmp_path.glob("*.npy")]) == 1


class Broken(Held):
    """A set whose second image is corrupt, as long as it is not skipped."""

    def load(self):
        return self.pixels if len(self.pixels) < 6 else _Corrupt(self.pixels)


class _Corrupt(Items):
    def __getitem__(self, index):
        if index == 1:
            raise DecodingError("it is broken")
        return self.data[index]


def test_corrupt_images_of_the_other_set_are_left_out(tmp_path):
    dataset = Degraded(of=Broken(), how="edges")
    assert torch.equal(load_cached(dataset, tmp_path), PIXELS[[0, 2, 3, 4, 5]])
    assert dataset.labels().tolist() == [0, 1, 0, 1, 0]


def test_sets_that_cannot_be_degraded_so_are_refused():
    for make in (Degraded, Itself):
        with pytest.raises(ValueError, match=r"^of should be a data set of images"):
            make(of=Ring())
        with pytest.raises(ValueError, match=r"^of should be a data set without sources"):
            make(of=Itself(of=Digits()))
    with pytest.raises(Misfit) as refused:
        Degraded(of=Digits(), how="grey")
    assert "how" in refused.value.remedy
    with pytest.raises(Misfit) as refused:
        Degraded(of=Digits(image_size=36), factor=8)
    assert refused.value.remedy == {"factor": 6}
