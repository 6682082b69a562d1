"""The path angle of a run, which shows the rotation of a game around its last weights (Berard et al. 2020, section 4)."""

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

    If the end only attracts, the cosine is near 1 before it (place 1) and near −1 beyond it; if the game rotates about the end,
    there is a bump beside this change of sign. The cosine is None where the field is 0 or not finite. The networks' weights are
    restored at the end.

    Args:
        gan: The GAN whose networks are moved along the line.
        start: Weights of both networks, D's first, in the order of `gan.d_parameters` and `gan.g_parameters`.
        end: The same at a later time.
        places: 0 is the start, 1 the end.
        v: The field at the networks' weights.
    """
    parameters = [*gan.d_parameters, *gan.g_parameters]
    before = [parameter.detach().clone() for parameter in parameters]
    direction = concatenated([after - first for first, after in zip(start, end, strict=True)])
    cosines: list[float | None] = []
    try:
        for place in places:
            _put(parameters, [torch.lerp(first, after, place) for first, after in zip(start, end, strict=True)])
            along = concatenated(v())
            cosine = float(-(along @ direction) / (along.norm() * direction.norm()))
            cosines.append(cosine if math.isfinite(cosine) else None)
    finally:
        _put(parameters, before)
    return cosines


@torch.no_grad()
def _put(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)
