"""The path angle of a run: the rotation of a game on the way to its last weights (Berard et al. 2020, section 4)."""

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from ganexp.dynamics.eigenvalues import concatenated
from ganexp.gan import GAN, Vector


def path_angle(
    gan: GAN,
    start: Sequence[Tensor],
    end: Sequence[Tensor],
    places: Iterable[float],
    v: Callable[[], Vector],
) -> list[float | None]:
    """Return the cosine of the angle between −v and the direction from start to end, at places on the line through both.

    Where the end only attracts, the cosine is near 1 before it (place 1) and near −1 beyond it; a game that rotates about the
    end has a bump beside that change of sign. Where the field is 0 or not finite, there is none. The networks have their own
    weights again afterwards.

    Args:
        gan: The networks that are moved along the line.
        start: Weights of both networks, D's first, in the order of `gan.d_parameters` and `gan.g_parameters`.
        end: The same at a later time.
        places: 0 is the start, 1 the end.
        v: The field at the networks' weights.
    """
    parameters = [*gan.d_parameters, *gan.g_parameters]
    before = [one.detach().clone() for one in parameters]
    way = concatenated([after - first for first, after in zip(start, end, strict=True)])
    cosines: list[float | None] = []
    try:
        for place in places:
            _put(parameters, [torch.lerp(first, after, place) for first, after in zip(start, end, strict=True)])
            along = concatenated(v())
            cosine = float(-(along @ way) / (along.norm() * way.norm()))
            cosines.append(cosine if math.isfinite(cosine) else None)
    finally:
        _put(parameters, before)
    return cosines


@torch.no_grad()
def _put(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)
