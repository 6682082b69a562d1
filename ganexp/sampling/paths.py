"""Ways through latent space: straight, along the sphere, and from one point to the next."""

from collections.abc import Callable

import torch
from torch import Tensor

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
        frames: How many latents there are from one stop to the next, the first of the two included.
        between: `linear` or `spherical`.
        closed: Whether it goes back to the first stop, whose frame then is not repeated at the end.

    Returns:
        `(K * frames, …)` if closed, else `((K - 1) * frames + 1, …)`, which ends at the last stop.
    """
    t = (torch.arange(frames, dtype=stops.dtype, device=stops.device) / frames).view(-1, *[1] * (stops.dim() - 1))
    ends = [*stops[1:], stops[0]] if closed else [*stops[1:]]
    legs = [between(start, end, t) for start, end in zip(stops, ends, strict=False)]
    return torch.cat(legs if closed else [*legs, stops[-1:]])
