"""The best view as a GIF for a README: four strategies on the bilinear game, and their distances."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from PIL import Image

from playing.games import GAMES, Settings, path
from playing.shown import BY_NAME, made

STRATEGIES = {
    "joint": ("spirals out", 1.0),
    "detach": ("goes round", 1.0),
    "lookahead": ("comes in", 1.15),
    "extragradient": ("comes in", 0.87),
}
"""The outcome of each, as a label, and the label's height above the end of its line, as a factor."""
SETTINGS = Settings(rate=0.2)
ITERATIONS = 120
START = (1.2, 0.6)
REACH = 2.4
SIZE = (8.2, 4.0)
INK, SOFT, GRID = "#1b2330", "#5b6675", "#dcdcd6"
HELD_MS, FRAME_MS = 2500, 70


def write(place: Path) -> None:
    """Write the animation, one frame for each iteration; the last one is held for a while."""
    frames = [Image.fromarray(frame) for frame in drawn()]
    palette = frames[-1].quantize(96)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [FRAME_MS] * (len(small) - 1) + [HELD_MS]
    small[0].save(place, save_all=True, append_images=small[1:], duration=times, loop=0, optimize=True)


def drawn() -> list[np.ndarray[Any, Any]]:
    """Return the frames, `(height, width, 3)` of uint8."""
    paths = {name: path(GAMES[0], made(name, None, SETTINGS), SETTINGS, ITERATIONS, START) for name in STRATEGIES}
    figure = Figure(figsize=SIZE, dpi=100, layout="constrained", facecolor="white")
    canvas = FigureCanvasAgg(figure)
    plane, chart = figure.subplots(1, 2, width_ratios=[1, 1.05])
    ground(plane)
    axes_of_chart(chart)
    colors = {name: BY_NAME[name].colors[0] for name in STRATEGIES}
    lines = {name: (*trail(plane, colors[name]), *trail(chart, colors[name])) for name in STRATEGIES}
    for name in STRATEGIES:
        label(chart, name, paths[name], colors[name])
    frames = []
    for i in range(ITERATIONS + 1):
        for name, one in paths.items():
            so_far, distances = one[: i + 1], np.hypot(*one[: i + 1].T)
            walked, head, curve, point = lines[name]
            walked.set_data(so_far[:, 0], so_far[:, 1])
            head.set_data(so_far[-1:, 0], so_far[-1:, 1])
            curve.set_data(np.arange(i + 1), distances)
            point.set_data([i], distances[-1:])
        canvas.draw()
        frames.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    return frames


def ground(axes: Axes) -> None:
    """Draw the arrows of descent, (ψ, −θ), circles around the solution, and the solution."""
    ticks = np.linspace(-REACH, REACH, 17)[1:-1]
    theta, psi = np.meshgrid(ticks, ticks)
    axes.quiver(theta, psi, psi, -theta, color="#a9b1bc", angles="xy", pivot="middle", width=0.004, scale=32)
    for radius in (0.5, 1, 1.5, 2):
        axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor=GRID, linewidth=0.8))
    axes.plot(0, 0, "+", color=INK, markersize=11, markeredgewidth=2)
    axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal", xticks=[-2, -1, 0, 1, 2], yticks=[-2, -1, 0, 1, 2])
    axes.set_title("A GAN with two weights", color=INK, fontsize=12, fontweight="bold", loc="left")
    axes.set_xlabel("θ, weight of G", color=SOFT)
    axes.set_ylabel("ψ, weight of D", color=SOFT)
    _bare(axes)


def axes_of_chart(axes: Axes) -> None:
    """Prepare the chart of distances."""
    axes.set(xlim=(0, 1.42 * ITERATIONS), ylim=(0.05, 20), yscale="log", xticks=range(0, ITERATIONS + 1, 40))
    axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_title("Distance to the solution", color=INK, fontsize=12, fontweight="bold", loc="left")
    axes.set_xlabel(f"iterations, learning rate {SETTINGS.rate}", color=SOFT)
    axes.minorticks_off()
    _bare(axes)


def trail(axes: Axes, color: str) -> tuple[Any, Any]:
    """Return a line and its head, both still empty."""
    (line,) = axes.plot([], [], color=color, linewidth=1.6)
    (head,) = axes.plot([], [], "o", color=color, markersize=7, markeredgecolor="white", markeredgewidth=1)
    return line, head


def label(axes: Axes, name: str, found: np.ndarray[Any, Any], color: str) -> None:
    """Write a strategy's name, and what becomes of it, where its line is going to end."""
    end = float(np.clip(np.hypot(*found[-1]), 0.06, 15))
    what, lifted = STRATEGIES[name]
    axes.text(
        ITERATIONS + 4,
        end * lifted,
        f"{name}\n{what}",
        color=color,
        va="center",
        fontsize=9.5,
        fontweight="bold",
        linespacing=1.15,
    )


def _bare(axes: Axes) -> None:
    axes.tick_params(colors=SOFT, length=0)
    for spine in axes.spines.values():
        spine.set_color(GRID)
