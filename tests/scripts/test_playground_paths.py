"""The playground's paths: those by ganexp against NumPy, those in the browser against ganexp's."""

import itertools
import json
import shutil
import subprocess
from dataclasses import asdict

import numpy as np
import pytest
import torch

from ganexp.losses import WGAN
from playing import page
from playing.games import GAMES, Settings, normal_points, path
from playing.programs import programs
from playing.references import MOMENTA, RATES, START, STEPS, settings_of
from playing.shown import SHOWN, made
from playing.tape import Unrepeatable, program

NODE = shutil.which("node")


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
    assert len({(one.colors, one.dash) for one in SHOWN}) == len(SHOWN)


def test_strategies_said_to_go_the_same_way_do():
    settings = Settings(0.3, 0.3, 2, 1)
    for one in SHOWN:
        expected = path(GAMES[2], made(one.name, None, settings), settings, 3, START)
        for name in one.also:
            found = path(GAMES[2], made(name, None, settings), settings, 3, START)
            assert found == pytest.approx(expected, rel=1e-12), name


def test_every_slider_has_its_ends_tried():
    for one in SHOWN:
        tried = list(settings_of(one))
        assert {min(RATES), max(RATES)} <= {settings.rate for settings, _ in tried}
        assert {min(MOMENTA), max(MOMENTA)} <= {settings.momentum for settings, _ in tried}
        assert {STEPS[0], STEPS[-1], (1, 1)} <= {(settings.d_steps, settings.g_steps) for settings, _ in tried}
        if one.coefficient:
            assert set(one.coefficient.stops) <= {coefficient for _, coefficient in tried}
            assert one.coefficient.low <= one.coefficient.default <= one.coefficient.high


def in_node(script, given):
    file = json.dumps(str(page.ROOM / "tapes.js"))
    script = f"const tapes = require({file}), given = JSON.parse(require('fs').readFileSync(0)); const found = {script};"
    script += "console.log(JSON.stringify(found));"
    ran = subprocess.run([NODE, "-e", script], input=json.dumps(given), text=True, capture_output=True, check=True, timeout=60)
    return json.loads(ran.stdout)


FOLLOW = "given.cases.map(c => tapes.path(given, given.games[c.game], c.strategy, c, given.start, given.n, Infinity))"
RADIUS = "given.cases.map(c => tapes.radius(given, given.games[c.game], c.strategy, c))"


def given_for(cases, games, shown, **further):
    """Return what the scripts are given: cases of (game, strategy's line, settings, coefficient) and their programs."""
    ratios = dict.fromkeys((settings.d_steps, settings.g_steps) for _, _, settings, _ in cases)
    told = [
        {"game": game.name, "strategy": one.name, **asdict(settings), "coefficient": coefficient}
        for game, one, settings, coefficient in cases
    ]
    return {
        **programs(games, shown, ratios),
        "games": {one.name: {"name": one.name, "points": one.points} for one in games},
        "cases": told,
        **further,
    }


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="no node")
@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: shown.name)
def test_what_the_browser_plays_is_ganexps_strategy(shown):
    """Whole paths of every strategy at every end of every slider."""
    games = (GAMES[0], GAMES[2]) if shown.cycle < 10 else GAMES[:1]
    cases = [(game, shown, *one) for game in games for one in settings_of(shown)]
    n = shown.cycle + 5
    for case, found in zip(cases, in_node(FOLLOW, given_for(cases, games, [shown], start=START, n=n)), strict=True):
        game, _, settings, coefficient = case
        expected = path(game, made(shown.name, coefficient, settings), settings, n, START)
        assert np.array(found["points"]) == pytest.approx(expected, rel=1e-9, abs=1e-12), (game.name, settings, coefficient)


@pytest.mark.skipif(NODE is None, reason="no node")
def test_legs_of_a_step_that_looks_ahead_of_one_that_takes_turns_and_of_one_that_does_neither():
    shown = [one for one in SHOWN if one.name in ("joint", "detach", "extragradient")]
    cases = [(GAMES[0], one, Settings(0.3), one.coefficient and one.coefficient.default) for one in shown]
    found = in_node(FOLLOW, given_for(cases, GAMES[:1], shown, start=START, n=2))
    assert [[leg["kind"] for leg in one["legs"][2]] for one in found] == [["both"], ["d", "g"], ["ahead", "both"]]


@pytest.mark.skipif(NODE is None, reason="no node")
def test_factors_at_the_solution_are_the_closed_forms():
    """Of rules on the bilinear game, at η = 0.3; with momentum that of the heavy ball, λ² − (1 + β − iη) λ + β = 0."""
    known = {
        "joint": 1.09**0.5,
        "detach": 1,
        "extragradient": (1 - 0.3**2 + 0.3**4) ** 0.5,
        "past_extragradient": (0.5 + 0.5 * (1 - 4 * 0.3**2) ** 0.5) ** 0.5,
        "consensus": ((1 - 0.3 * 0.5) ** 2 + 0.3**2) ** 0.5,
        "hamiltonian": 0.7,
        "competitive": 1 / 1.09**0.5,
        "lookahead": abs(0.5 + 0.5 * (1 - 0.3j) ** 5) ** 0.2,
        "outer_lookahead": abs(0.5 + 0.5 * (0.5 + 0.5 * (1 - 0.3j) ** 5) ** 5) ** 0.04,
    }
    shown = [one for one in SHOWN if one.name in known]
    cases = [(GAMES[0], one, Settings(0.3), one.coefficient and one.coefficient.default) for one in shown]
    found = in_node(RADIUS, given_for(cases, GAMES[:1], shown))
    assert dict(zip([one.name for one in shown], found, strict=True)) == pytest.approx(known, rel=1e-9)
    heavy = in_node(RADIUS, given_for([(GAMES[0], SHOWN[0], Settings(0.3, 0.4), None)], GAMES[:1], SHOWN[:1]))
    assert heavy == pytest.approx([max(abs(np.roots([1, -(1.4 - 0.3j), 0.4])))], rel=1e-9)


def test_what_does_not_come_again_is_not_recorded():
    counting = itertools.count(1)

    def slower(gan, reals, *, d_steps, g_steps):
        next(counting)
        with torch.no_grad():
            gan.g_parameters[0].mul_(0.5 ** next(counting))

    with pytest.raises(Unrepeatable, match="changes in a way"):
        program(GAMES[0], lambda *_: slower, Settings(), (None,))
    with pytest.raises(Unrepeatable, match="come again"):
        program(GAMES[0], lambda *_: made("lookahead", None, Settings()), Settings(), (None,), cycle=4)
