"""Pictures made from tensors: `(H, W, 3)`, uint8."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from ganexp.data.feed import to_pixels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PathCollection


GAP, WIDER, PADDING = 1, 8, 2
"""White pixels between images that belong together, further ones between those that do not, and those around each cell."""
CAPTION = 14
"""Height of a line of captions, in pixels."""


MOST_ROWS = 16
"""The most rows of a grid that has a class in each row."""


def image_grid(images: Tensor, columns: int = 8) -> np.ndarray:
    """Lay out images `(N, C, H, W)`, pixels in [-1, 1], row by row. Anything outside the range is clamped.

    One channel is shown grey. Of two or six, as stacks of two images have, both halves are shown side by side; of any other
    number, only the first.
    """
    from torchvision.utils import make_grid  # slow to import

    if images.shape[1] in (2, 6):
        images = torch.cat(images.chunk(2, 1), 3)
    if images.shape[1] not in (1, 3):
        images = images[:, :1]
    return make_grid(to_pixels(images).cpu(), nrow=columns, padding=PADDING, pad_value=255).permute(1, 2, 0).numpy()


def classes_in_rows(images: Tensor, classes: int) -> np.ndarray:
    """Lay out images `(N, C, H, W)` whose classes take turns, N being a multiple of `classes`: a row for each class."""
    return image_grid(images.unflatten(0, (-1, classes)).transpose(0, 1).flatten(0, 1), columns=len(images) // classes)


def side_by_side(inputs: Tensor, outputs: Tensor) -> np.ndarray:
    """Lay out pairs `(N, C, H, W)` so that each input has its output on its right, four pairs in a row."""
    return image_grid(torch.stack([inputs, outputs], dim=1).flatten(0, 1), columns=8)


def beside_each_other(*images: Tensor) -> np.ndarray:
    """Lay out images that belong together, several `(N, C, H, W)` of any size: in each row four groups, from left to right.

    Smaller images are enlarged to the largest, pixel by pixel, and grey ones are repeated for each channel.
    """
    channels = max(3 if batch.shape[1] == 3 else 1 for batch in images)
    height, width = (max(batch.shape[side] for batch in images) for side in (2, 3))
    alike = []
    for batch in images:
        shown = batch if batch.shape[1] == channels else batch[:, :1].expand(-1, channels, -1, -1)
        alike.append(interpolate(shown.float(), (height, width)) if shown.shape[2:] != (height, width) else shown.float())
    gap = torch.ones_like(alike[0])[..., :GAP]
    groups = torch.cat([torch.cat([batch, gap], 3) for batch in alike[:-1]] + [alike[-1]], 3)
    return image_grid(pad(groups, (0, WIDER), value=1.0), columns=4)


def translations(source: Tensor, output: Tensor, target: Tensor | None = None, *, two_way: bool = False) -> np.ndarray:
    """Lay out sources `(N, C, H, W)`, G's outputs, and targets if they are known, under captions; as `beside_each_other`.

    With `two_way`, sources are stacks (a, b) and outputs are (F(b), G(a)): then the order is a, G(a), b, F(b).
    """
    if two_way:
        (a, b), (of_b, of_a) = source.chunk(2, 1), output.chunk(2, 1)
        return _captioned(["a", "G(a)", "b", "F(b)"], a, of_a, b, of_b)
    if target is None:
        return _captioned(["source", "output"], source, output)
    return _captioned(["source", "output", "target"], source, output, target)


def _captioned(captions: Sequence[str], *images: Tensor) -> np.ndarray:
    """Return images `beside_each_other` below a line that names them; without it where a name is wider than an image."""
    from PIL import Image, ImageDraw, ImageFont

    grid = beside_each_other(*images)
    width = max(batch.shape[3] for batch in images)
    font = ImageFont.load_default(10)
    if any(font.getlength(caption) > width for caption in captions):
        return grid
    line = Image.new("RGB", (grid.shape[1], CAPTION), "white")
    for group in range(min(len(images[0]), 4)):
        left = PADDING + group * (len(images) * (width + GAP) - GAP + WIDER + PADDING)
        for i, caption in enumerate(captions):
            ImageDraw.Draw(line).text((left + i * (width + GAP) + width / 2, 1), caption, "black", font, anchor="ma")
    return np.concatenate([np.asarray(line), grid])


def beside_the_nearest(samples: Tensor, nearest: Tensor) -> np.ndarray:
    """Draw one row per sample `(N, …)`: from left to right the sample, a gap, and the real images nearest to it `(N, k, …)`."""
    first = samples[:, None].to(nearest)
    return image_grid(torch.cat([first, torch.ones_like(first), nearest], 1).flatten(0, 1), columns=2 + nearest.shape[1])


def scatter(real: Tensor | None, fake: Tensor, *, within: Tensor | None = None) -> np.ndarray:
    """Draw points `(N, 2)`: real ones grey beneath, if there are any, and generated ones on top.

    The axes are fixed by the points `within`, by default the real ones, or else the generated ones.
    """
    points = fake.detach().float().cpu()
    background = points if real is None else real.detach().float().cpu()
    canvas, axes, beneath, on_top = _plot(with_real=real is not None)
    beneath.set_offsets(background.numpy())
    on_top.set_offsets(points.numpy())
    return _drawn(canvas, axes, reach=1.4 * (background if within is None else within).abs().max().item())


def spectrum(eigenvalues: Sequence[complex]) -> np.ndarray:
    """Draw eigenvalues of a game's Jacobian in the complex plane; those left of the line are directions that repel."""
    canvas, axes, points = _plane()
    points.set_offsets([(eigenvalue.real, eigenvalue.imag) for eigenvalue in eigenvalues])
    return _drawn(canvas, axes, reach=1.1 * max(max(abs(eigenvalue) for eigenvalue in eigenvalues), 1e-12))


@functools.cache
def _plane() -> "tuple[FigureCanvasAgg, Axes, PathCollection]":
    """Return a canvas, its axes and the points on it, made once."""
    canvas, axes = _canvas({"left": 0.16, "right": 0.97, "bottom": 0.1, "top": 0.96})
    axes.axvline(0, color="0.7", linewidth=1, zorder=0)
    axes.axhline(0, color="0.9", linewidth=1, zorder=0)
    axes.set(xlabel="Re λ", ylabel="Im λ", aspect="equal")
    return canvas, axes, axes.scatter([], [], s=24, color="tab:red", linewidths=0)


@functools.cache
def _plot(*, with_real: bool) -> "tuple[FigureCanvasAgg, Axes, PathCollection, PathCollection]":
    """Return a canvas, its axes, and the points beneath and on top, made once.

    A figure is a reference cycle of 3,500 objects and 1.3 MiB, which only Python's rare full collections free.
    """
    canvas, axes = _canvas({"left": 0.1, "right": 0.98, "bottom": 0.07, "top": 0.95})
    beneath = axes.scatter([], [], s=14, color="0.75", linewidths=0, label="real" if with_real else None, visible=with_real)
    on_top = axes.scatter([], [], s=5, color="tab:red", alpha=0.6, linewidths=0, label="generated")
    axes.set_aspect("equal")
    axes.legend(loc="upper right", framealpha=0.9)
    return canvas, axes, beneath, on_top


def _canvas(margins: dict[str, float]) -> "tuple[FigureCanvasAgg, Axes]":
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import, and only points need it
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 5), dpi=100)  # with fixed margins: a constrained layout depends on what it laid out before
    return FigureCanvasAgg(figure), figure.subplots(gridspec_kw=margins)


def _drawn(canvas: "FigureCanvasAgg", axes: "Axes", reach: float) -> np.ndarray:
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
