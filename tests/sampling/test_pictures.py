"""Films show the samples they walk through, and nearest neighbours are those of a plain search."""

import sys

import numpy as np
import pytest
import torch
from PIL import Image, ImageSequence
from torch.utils.data import Dataset

from ganexp.evaluation import evaluator
from ganexp.evaluation.nearest import nearest
from ganexp.facts import UserError
from ganexp.logging.pictures import beside_the_nearest
from ganexp.sampling.films import frames_of, write_film
from tests.sampling import tiny_generators as tiny


def test_a_gif_passes_the_samples_and_is_a_loop(tmp_path):
    G = tiny.images()
    frames = [*frames_of(G, range(8), 3, tiles=4, seed=2)]
    assert len(frames) == 6
    write_film(frames, tmp_path / "x.gif")
    shown = G.sample(8, seed=2).numpy()
    with Image.open(tmp_path / "x.gif") as film:
        assert (film.n_frames, film.size, film.info["loop"]) == (6, (38, 38), 0)
        for stop in range(2):
            film.seek(3 * stop)
            picture = np.asarray(film.convert("L")).astype(float)
            for tile in range(4):
                top, left = 2 + 18 * (tile // 2), 2 + 18 * (tile % 2)
                wanted = (shown[4 * stop + tile, 0] + 1) * 127.5
                np.testing.assert_allclose(picture[top : top + 16, left : left + 16], wanted, atol=1)


@pytest.mark.parametrize("per_second", [1, 30, 45])
def test_a_gif_lasts_as_long_as_its_frames(per_second, tmp_path):
    frames = [np.full((2, 2, 3), value, np.uint8) for value in range(90)]
    write_film(frames, tmp_path / "x.gif", per_second=per_second)
    with Image.open(tmp_path / "x.gif") as film:
        shown = [frame.info["duration"] for frame in ImageSequence.Iterator(film)]
    assert sum(shown) == pytest.approx(1000 * 90 / per_second, abs=5)


def test_every_tile_keeps_its_class():
    G = tiny.images(3, dtype=torch.float64)
    (first, *_) = frames_of(G, range(6), 2, tiles=3, enlarge=2)
    assert first.shape == (36, 2 + 3 * 34, 3)
    wanted = ((G.sample(3).numpy() + 1) * 127.5).round().clip(0, 255)
    for tile in range(3):
        np.testing.assert_array_equal(first[2:34:2, 2 + 34 * tile : 34 + 34 * tile : 2, 0], wanted[tile, 0])


def test_a_film_of_points_shows_them_move_on_axes_that_stay():
    """Only the axes with their numbers, and the legend, are nearly black."""
    frames = np.stack([*frames_of(tiny.points(), range(2), 4, tiles=1)])
    axes = frames.max(-1) < 64
    assert (axes == axes[0]).all()
    assert all((frame != frames[0]).any() for frame in frames[1:])


def test_what_is_no_film_is_one_sentence(tmp_path, monkeypatch):
    G = tiny.images()
    monkeypatch.setitem(sys.modules, "av", None)
    for said, call in {
        "walk of 4 tiles needs 2 or more samples for each of them, not 4 in all": lambda: frames_of(G, range(4), 3, tiles=4),
        "1 or more frames": lambda: frames_of(G, range(4), 0),
        "enlarged 1 time or more, not 0": lambda: frames_of(G, range(4), 2, enlarge=0),
        "needs PyAV, which is not installed: pip install av, or write a .gif": lambda: write_film([], tmp_path / "x.mp4"),
        "should end in .gif or .mp4": lambda: write_film([], tmp_path / "x.avi"),
        "1 to 50 frames per second, not 0": lambda: write_film([], tmp_path / "x.gif", per_second=0),
    }.items():
        with pytest.raises(UserError, match=rf"\A[^\n]*{said}[^\n]*\Z"):
            call()
    assert not [*tmp_path.iterdir()]


def test_an_mp4_has_the_frames(tmp_path):
    av = pytest.importorskip("av")
    frames = [np.full((17, 21, 3), shade, np.uint8) for shade in (0, 100, 200)]
    write_film(frames, tmp_path / "x.mp4")
    with av.open(str(tmp_path / "x.mp4")) as film:
        shades = [frame.to_ndarray(format="rgb24").mean() for frame in film.decode(video=0)]
    np.testing.assert_allclose(shades, [0, 100, 200], atol=6)


class Squares(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index]


@pytest.mark.parametrize("streamed", [False, True])
def test_neighbours_are_those_of_a_plain_search(streamed, monkeypatch):
    rng = np.random.default_rng(0)
    data, samples = rng.integers(256, size=(50, 1, 4, 4), dtype=np.uint8), rng.uniform(-1, 1, (3, 1, 4, 4))
    monkeypatch.setattr(evaluator, "BATCH", 7)
    reals = data.astype(np.float64) / 127.5 - 1
    apart = np.sqrt(((samples[:, None] - reals) ** 2).sum((2, 3, 4)))
    order = np.argsort(apart, 1)[:, :5]
    given = torch.from_numpy(data)
    batches = evaluator.real_batches(Squares(given) if streamed else given, dtype=torch.float64)
    distances, found = nearest(torch.from_numpy(samples), batches, lambda images: images.flatten(1), 5)
    np.testing.assert_allclose(distances, np.take_along_axis(apart, order, 1))
    np.testing.assert_allclose(found, reals[order])
    batches = evaluator.real_batches(given, dtype=torch.float64)
    copied, _ = nearest(torch.from_numpy(reals[7:8]), batches, lambda images: images.flatten(1), 100)
    assert copied.shape == (1, 50)
    assert copied[0, 0] < 1e-12
    assert beside_the_nearest(torch.from_numpy(samples), found).shape == (2 + 3 * 6, 2 + 7 * 6, 3)
