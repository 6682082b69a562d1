"""The playground's paths: those by ganexp against NumPy, those in the browser against ganexp's."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

from ganexp.losses import WGAN
from playing import page
from playing.games import GAMES, Settings, normal_points, path
from playing.references import MOMENTA, RATES, START, STEPS, options, settings_of
from playing.shown import ALL, SHOWN, made

NODE = shutil.which("node")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def in_numpy(game, strategy, settings, iterations, start):
    """Return a path by the formulas of the game: dL_D/dψ and dL_G/dθ, and the heavy ball."""
    points = np.array(game.points)
    derivative, of_real = (sigmoid, sigmoid) if game.loss is not WGAN else (np.ones_like, np.ones_like)

    def v(w):
        theta, psi = w
        x = theta + points
        d = np.mean(x * derivative(psi * x)) - np.mean(points * of_real(-psi * points))
        return np.array([-psi * np.mean(derivative(psi * x)), d])

    w, speed, found = np.array(start), np.zeros(2), [start]
    mine = {"g": np.array([1.0, 0.0]), "d": np.array([0.0, 1.0]), "both": np.ones(2)}

    def move(w, speed, gradient, who):
        speed = np.where(mine[who] == 1, settings.momentum * speed - settings.rate * gradient, speed)
        return w + mine[who] * speed, speed

    for _ in range(iterations):
        if strategy == "detach":
            for who in "d" * settings.d_steps + "g" * settings.g_steps:
                w, speed = move(w, speed, v(w), who)
        else:
            both = min(settings.d_steps, settings.g_steps)
            for _ in range(both):
                gradient = v(w)
                if strategy == "extragradient":
                    ahead, speed = move(w, speed, gradient, "both")
                    gradient = v(ahead)
                w, speed = move(w, speed, gradient, "both")
            for who in "d" * (settings.d_steps - both) + "g" * (settings.g_steps - both):
                w, speed = move(w, speed, v(w), who)
        found.append(tuple(w))
    return np.array(found)


def test_paths_are_those_of_the_games_formulas():
    for game, strategy, settings in [
        (GAMES[0], "joint", Settings(0.3)),
        (GAMES[0], "detach", Settings(0.2, -0.5)),
        (GAMES[1], "extragradient", Settings(0.3, 0.3)),
        (GAMES[1], "joint", Settings(0.2, 0.0, 3, 1)),
        (GAMES[2], "detach", Settings(0.4, 0.5, 1, 2)),
        (GAMES[2], "extragradient", Settings(0.2, -0.3, 2, 1)),
    ]:
        found = path(game, made(strategy, None, settings), settings, 8, START)
        assert found == pytest.approx(in_numpy(game, strategy, settings, 8, START), rel=1e-12, abs=1e-14)


def test_simultaneous_descent_leaves_the_bilinear_game_at_the_known_rate():
    found = path(GAMES[0], made("joint", None, Settings(0.3)), Settings(0.3), 8, START)
    assert np.hypot(*found[-1]) / np.hypot(*START) == pytest.approx((1 + 0.3**2) ** 4, rel=1e-12)


def test_points_that_stand_for_a_gaussian():
    points = np.array(normal_points(32))
    assert points.mean() == pytest.approx(0, abs=1e-12)
    assert points.var() == pytest.approx(1)
    assert (np.diff(points) > 0).all()


def test_every_strategy_on_the_page_looks_different():
    assert len({(one.colors, one.dash) for one in ALL}) == len(ALL)


def test_strategies_said_to_go_the_same_way_do():
    settings = Settings(0.3, 0.3, 2, 1)
    for one in SHOWN:
        expected = path(GAMES[2], made(one.name, None, settings), settings, 3, START)
        for name in one.also:
            found = path(GAMES[2], made(name, None, settings), settings, 3, START)
            assert found == pytest.approx(expected, rel=1e-12), name


def test_the_recurrences_name_every_strategy_and_every_slider_has_its_ends_tried():
    source = (page.ROOM / "recurrences.js").read_text()
    for one in SHOWN:
        assert re.search(rf"^    {one.name}\(game, s, o, legs\)", source, re.MULTILINE), one.name
        tried = list(settings_of(one))
        assert {min(RATES), max(RATES)} <= {settings.rate for settings, _ in tried}
        assert {min(MOMENTA), max(MOMENTA)} <= {settings.momentum for settings, _ in tried}
        assert {STEPS[0], STEPS[-1], (1, 1)} <= {(settings.d_steps, settings.g_steps) for settings, _ in tried}
        if one.coefficient:
            assert set(one.coefficient.stops) <= {coefficient for _, coefficient in tried}
            assert one.coefficient.low <= one.coefficient.default <= one.coefficient.high


def in_node(script, given):
    files = "".join(
        f"const {name} = require({json.dumps(str(page.ROOM / f'{name}.js'))});" for name in ("recurrences", "theory")
    )
    script = f"{files} const given = JSON.parse(require('fs').readFileSync(0)); console.log(JSON.stringify({script}));"
    ran = subprocess.run([NODE, "-e", script], input=json.dumps(given), text=True, capture_output=True, check=True, timeout=60)
    return json.loads(ran.stdout)


FOLLOW = "given.cases.map(c => recurrences.path(given.games[c.game], c.strategy, c, given.start, given.n, Infinity).points)"


def games_for_scripts():
    return {one.name: {"points": one.points, "bounded": one.loss is not WGAN} for one in GAMES}


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="no node")
@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.name)
def test_the_browsers_recurrences_are_ganexps_strategies(shown):
    """Whole paths of every strategy in every game, at every end of every slider and at every ratio of steps."""
    middle = shown.coefficient.default if shown.coefficient else None
    tried = [*settings_of(shown), *((Settings(0.2, 0.1, d, g), middle) for d, g in STEPS)]
    for game in GAMES:
        cases = [{"game": game.name, "strategy": shown.name} | options(*one) for one in tried]
        found = in_node(FOLLOW, {"games": games_for_scripts(), "cases": cases, "start": START, "n": 8})
        for one, points in zip(tried, found, strict=True):
            expected = path(game, made(shown.name, one[1], one[0]), one[0], 8, START)
            assert np.array(points) == pytest.approx(expected, rel=1e-10, abs=1e-12), (game.name, one)


@pytest.mark.skipif(NODE is None, reason="no node")
def test_theory_is_what_long_paths_do():
    """The factor per iteration near the solution, measured over 200 iterations from iteration 400 on."""
    cases = [
        {"game": game.name, "strategy": one.name} | options(Settings(rate), one.coefficient and one.coefficient.default)
        for game in GAMES
        for one in SHOWN
        for rate in (0.1, 0.3)
    ]
    given = {"games": games_for_scripts(), "cases": cases, "start": (1e-4, 5e-5), "n": 600}
    paths, factors = in_node(f"[{FOLLOW}, given.cases.map(c => theory.factor(given.games[c.game], c.strategy, c))]", given)
    compared = 0
    for case, points, factor in zip(cases, paths, factors, strict=True):
        middle, end = np.hypot(*points[400]), np.hypot(*points[-1])
        if factor is not None and 1e-100 < end < 1e-2:
            assert (end / middle) ** (1 / 200) == pytest.approx(factor, rel=3e-3), case
            compared += 1
    assert compared > 20
