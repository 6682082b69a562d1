"""Walks through latent space, and films of them."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ganexp.batch import Batch
from ganexp.documents import atomic_write
from ganexp.facts import UserError
from ganexp.logging.pictures import image_grid, scatter
from ganexp.sampling.trained import Trained

Between = Callable[[Tensor, Tensor, Tensor], Tensor]
NEARLY_PARALLEL = 1e-6
"""Below this sine of an angle, an arc is a straight line to within rounding, and the arc's formula divides by zero."""


def linear(start: Tensor, end: Tensor, t: Tensor) -> Tensor:
    """Return (1 - t) start + t end; shapes broadcast, `t` in [0, 1].

    The point half way between two normal latents lies nearer to the origin than almost all normal latents.
    """
    return start + t * (end - start)


def spherical(start: Tensor, end: Tensor, t: Tensor) -> Tensor:
    """Return sin((1 - t)Ω)/sin Ω start + sin(tΩ)/sin Ω end, with Ω the angle between the two (Shoemake 1985; White 2016).

    The path stays at the norms that normal latents have. It is straight where the two are parallel, and also where they are
    exactly opposite, which leaves no arc between them.
    """
    cosine = torch.nn.functional.cosine_similarity(start, end, dim=-1).clamp(-1, 1).unsqueeze(-1)
    angle = cosine.acos()
    sine = angle.sin()
    flat = sine.abs() < NEARLY_PARALLEL
    arc = (((1 - t) * angle).sin() * start + (t * angle).sin() * end) / sine.masked_fill(flat, 1)
    return torch.where(flat, linear(start, end, t), arc)


BETWEEN: dict[str, Between] = {"linear": linear, "spherical": spherical}


def walk(stops: Tensor, frames: int, between: Between, *, closed: bool) -> Tensor:
    """Walk from stop to stop, in equal steps.

    Args:
        stops: `(K, …, latent_dim)`.
        frames: The number of latents from one stop to the next, the first stop included.
        between: `linear` or `spherical`.
        closed: Whether the walk returns to the first stop, which is not repeated at the end.

    Returns:
        `(K * frames, …)` if closed, else `((K - 1) * frames + 1, …)`, which ends at the last stop.
    """
    t = (torch.arange(frames, dtype=stops.dtype, device=stops.device) / frames).view(-1, *[1] * (stops.dim() - 1))
    ends = [*stops[1:], stops[0]] if closed else [*stops[1:]]
    legs = [between(start, end, t) for start, end in zip(stops, ends, strict=False)]
    return torch.cat(legs if closed else [*legs, stops[-1:]])


def frames_of(
    trained: Trained,
    stops: Sequence[int],
    frames: int,
    *,
    tiles: int = 1,
    way: str = "spherical",
    seed: int = 0,
    label: int | str | None = None,
    truncation: float | None = None,
    closed: bool = True,
    enlarge: int = 1,
) -> Iterator[np.ndarray]:
    """Walk from sample to sample, and yield each frame as a picture `(H, W, 3)`, uint8.

    Args:
        trained: The generator, of images or of points.
        stops: Indices of the samples at the stops, `tiles` of them for each stop.
        frames: The number of frames from one stop to the next.
        tiles: The number of walks beside each other. Each has the class of its tile, if there are classes.
        way: `linear` or `spherical`.
        seed: As in `Trained.sample`.
        label: As in `Trained.sample`.
        truncation: As in `Trained.sample`.
        closed: Whether the walk returns to its start, for a loop.
        enlarge: Width and height, in pixels, of each pixel of a sample.
    """
    if frames < 1:
        raise UserError(f"there should be 1 or more frames from one sample to the next, not {frames}")
    if tiles < 1 or len(stops) < 2 * tiles or len(stops) % tiles:
        raise UserError(f"a walk of {tiles} tiles needs 2 or more samples for each of them, not {len(stops)} in all")
    if enlarge < 1:
        raise UserError(f"pixels should be enlarged 1 time or more, not {enlarge}")
    trained, bound = trained.under(truncation)
    points = trained.latents(stops, seed, label=label, truncation=bound)
    given = trained.labels(range(tiles), label)
    latents = walk(points.values.view(-1, tiles, trained.latent_dim), frames, BETWEEN[way], closed=closed)
    samples = (trained.pictures(trained.generate(Batch(z, given), seed)) for z in latents)
    if len(trained.shape) != 3:
        passed = trained.generate(points, seed)  # so that all frames have the same axes
        return (scatter(None, frame, within=passed) for frame in samples)
    squarish = math.ceil(tiles**0.5)
    columns = next((count for count in range(squarish, 9) if tiles % count == 0), squarish)
    larger = (frame.repeat_interleave(enlarge, -1).repeat_interleave(enlarge, -2) for frame in samples)
    return (image_grid(frame, columns=columns) for frame in larger)


def write_film(frames: Iterable[np.ndarray], path: Path, *, per_second: int = 20) -> None:
    """Write a `.gif`, which is shown in a loop, or an `.mp4`, which needs PyAV.

    One frame of an `.mp4` is in memory at a time; of a `.gif` all are, at one byte per pixel.
    """
    writers = {".gif": _write_gif, ".mp4": _write_mp4}
    if path.suffix not in writers:
        raise UserError(f"{path.name} should end in .gif or .mp4")
    if not 1 <= per_second <= 50:
        raise UserError(f"a film should have 1 to 50 frames per second, not {per_second}")
    writers[path.suffix](frames, path, per_second)


def _write_gif(frames: Iterable[np.ndarray], path: Path, per_second: int) -> None:
    first, *rest = (Image.fromarray(frame).quantize(256) for frame in frames)  # one byte per pixel
    shown_at = [10 * round(100 * frame / per_second) for frame in range(len(rest) + 2)]  # a GIF counts hundredths of seconds
    durations = [after - before for before, after in itertools.pairwise(shown_at)]
    with atomic_write(path) as file:
        first.save(file, "GIF", save_all=True, append_images=rest, duration=durations, loop=0)


def _write_mp4(frames: Iterable[np.ndarray], path: Path, per_second: int) -> None:
    try:
        import av
    except ImportError:
        raise UserError("an .mp4 needs PyAV, which is not installed: pip install av, or write a .gif") from None
    with atomic_write(path) as file, av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(per_second))
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            even = np.pad(frame, [(0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0)], mode="edge")  # as H.264 demands
            if not stream.codec_context.is_open:
                stream.height, stream.width = even.shape[:2]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24")))
        container.mux(stream.encode())
