"""The playground: that the page stands by itself, what is kept, the GIF, and what a browser does with it."""

import functools
import json
import re

import numpy as np
import pytest

import playground
from playing import gif, page, references, ring
from playing.games import GAMES, Settings
from playing.programs import programs
from playing.references import MOMENTA, RATES, STEPS
from playing.shown import SHOWN
from tests.browser import needs_a_browser, title

FEW = [one for one in SHOWN if one.name in ("joint", "detach", "extragradient", "lookahead", "runge_kutta", "consensus")]


def a_course(frames=4):
    random = np.random.default_rng(0)
    return {
        "points": random.integers(0, 65535, (frames, ring.SAMPLES, 2)).astype(np.uint16),
        "field": random.integers(0, 255, (frames, ring.CELLS, ring.CELLS)).astype(np.uint8),
        "iterations": np.arange(frames),
        "modes": np.arange(frames),
        "near": np.linspace(0, 1, frames),
    }


@functools.cache
def recorded():
    return programs(GAMES[:2], FEW, [(1, 1)])


@pytest.fixture
def small_page(monkeypatch):
    """The page with few references, and a ring that nobody has learnt."""
    monkeypatch.setattr(references, "ITERATIONS", 6)
    monkeypatch.setattr(page, "ITERATIONS", 6)
    settings = Settings(0.3, 0.3)
    own = [
        references.reference(game, one, settings, one.coefficient and one.coefficient.default)
        for game in GAMES[:2]
        for one in FEW
    ]
    monkeypatch.setattr(page, "SHOWN", FEW)
    monkeypatch.setattr(page, "references", lambda: own)
    monkeypatch.setattr(page, "programs", recorded)
    return page.page({name: a_course() for name in ring.STRATEGIES})


def test_the_page_stands_by_itself(small_page):
    start = small_page.index("const data = ") + len("const data = ")
    data, end = json.JSONDecoder().raw_decode(small_page, start)
    written = small_page[:start] + small_page[end:]
    assert not re.search(r"https?:|[\"'(]//|\bsrc=|\bhref=\"(?!#)|@import|url\(|fetch\(|XMLHttpRequest|import\(", written)
    assert "http" not in json.dumps({name: value for name, value in data.items() if name != "ring"})
    assert [one["name"] for one in data["strategies"]] == [one.name for one in FEW]
    assert [one["name"] for one in data["games"]] == re.findall(r'data-about="(\w+)"', small_page)
    assert set(data["ring"]["runs"]) <= {one.name for one in FEW}
    assert (data["rates"], data["momenta"]) == (list(RATES), list(MOMENTA))
    assert all(len(one["end"]) == 2 and np.isfinite(one["end"]).all() for one in data["references"])
    assert (data["iterations"], data["start"]) == (6, list(references.START))
    for name, key in re.findall(r"\b(rate|momentum|length|steps): \"?([-\d.:]+)", (page.ROOM / "questions.js").read_text()):
        allowed = {"rate": RATES, "momentum": MOMENTA, "steps": [f"{d}:{g}" for d, g in STEPS], "length": LENGTHS}[name]
        assert (key if name == "steps" else float(key)) in allowed, (name, key)


LENGTHS = json.loads(re.search(r"LENGTHS = (\[.*?\]);", (page.ROOM / "state.js").read_text())[1])


def test_a_ring_is_kept_for_the_next_time_if_its_settings_are_the_same(tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(ring, "train", lambda overrides, iterations, frames: trained.append(overrides) or a_course(frames))
    first = ring.courses(tmp_path / "ring.npz", 10, 3)
    again = ring.courses(tmp_path / "ring.npz", 10, 3)
    assert len(trained) == len(ring.STRATEGIES)
    assert all((again[name][key] == first[name][key]).all() for name in first for key in ring.KEYS)
    ring.courses(tmp_path / "ring.npz", 12, 3)
    assert len(trained) == 2 * len(ring.STRATEGIES)


def test_an_interrupted_write_leaves_the_rings_that_were_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(ring, "train", lambda overrides, iterations, frames: a_course(frames))
    ring.courses(tmp_path / "ring.npz", 10, 3)
    kept = (tmp_path / "ring.npz").read_bytes()

    def savez_compressed(file, **arrays):
        (file.write if hasattr(file, "write") else file.write_bytes)(b"PK")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", savez_compressed)
    with pytest.raises(KeyboardInterrupt):
        ring.courses(tmp_path / "ring.npz", 12, 3)
    assert (tmp_path / "ring.npz").read_bytes() == kept


@pytest.mark.slow
def test_a_ring_is_learnt_from_the_same_start_by_all():
    small = (*ring.SETTINGS, "generator.width=4", "discriminator.width=4", "batch_size=8")
    courses = [ring.train((*small, *overrides), 6, 3) for overrides in ring.STRATEGIES.values()]
    for one in courses:
        assert one["points"].shape == (3, ring.SAMPLES, 2)
        assert one["field"].shape == (3, ring.CELLS, ring.CELLS)
        assert one["iterations"].tolist() == [0, 2, 6]
        assert (one["points"][0] == courses[0]["points"][0]).all()
        assert (one["points"][-1] != one["points"][0]).any()


@pytest.mark.slow
def test_the_gif_is_small_and_moves(tmp_path, monkeypatch):
    monkeypatch.setattr(gif, "ITERATIONS", 8)
    playground.main(["--gif", str(tmp_path / "new" / "p.gif")])
    with gif.Image.open(tmp_path / "new" / "p.gif") as image:
        assert image.n_frames == 9
        assert image.info["duration"] == gif.FRAME_MS


@pytest.mark.slow
@needs_a_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_agrees_and_obeys_the_keyboard(width, small_page, tmp_path):
    (tmp_path / "page.html").write_text(small_page)
    press = (
        "let frames = 0; const frame = requestAnimationFrame; requestAnimationFrame = f => { frames++; return frame(f); };"
        "const asks = [...by('questions').children]; for (const one of [...asks, asks[0]]) one.click();"
        "const press = (key, at = document.body) => at.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));"
        "press('Home'); press('ArrowRight'); press('ArrowRight'); press('2'); press('s');"
        "press('ArrowUp', document.getElementById('field'));"
        "document.title = JSON.stringify([+document.documentElement.dataset.worst, clock.moment, state.game, state.apart,"
        " state.start[1], document.documentElement.scrollWidth - innerWidth, clock.running, frames]);"
    )
    worst, moment, game, apart, psi, too_wide, running, frames = json.loads(
        title(tmp_path / "page.html", press, f"--window-size={width},1400")
    )
    assert worst < 1e-11
    assert (moment, game, apart, psi) == (2, "dirac", True, 0.65)
    assert too_wide <= 0
    assert not running
    assert frames == 0  # one clock runs already: a second one would draw everything twice


@pytest.mark.slow
@needs_a_browser
def test_reduced_motion_shows_whole_paths_and_does_not_move_by_itself(small_page, tmp_path):
    (tmp_path / "page.html").write_text(small_page)
    script = "document.title = JSON.stringify([clock.running, clock.moment === state.length, rings.running])"
    flag = "--force-prefers-reduced-motion"
    assert title(tmp_path / "page.html", script, flag) == "[false,true,false]"
    wrong = "#game=chess&rate=77&start=9,9&strategies=joint&momentum=-0.5&own=lookahead:7,%3Cb%3E:1"
    script = "document.title = JSON.stringify([state.game, state.rate, state.start, state.strategies, state.momentum])"
    assert title(tmp_path / "page.html", script, address=wrong) == '["bilinear",0.1,[1.2,0.6],["joint"],-0.5]'
    wrong = "#strategies=runge_kutta&own=runge_kutta:3&at=soon"  # its orders are 2 and 4
    script = "document.title = JSON.stringify([state.own.runge_kutta, clock.moment])"
    assert title(tmp_path / "page.html", script, "--force-prefers-reduced-motion", address=wrong) == "[2,200]"
    for table in ("#strategies", "#100%"):  # addresses of places in the page
        assert title(tmp_path / "page.html", "document.title = state.game", address=table) == "bilinear"
