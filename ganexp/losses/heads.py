"""The mean of a loss over several discriminators in one, each with the same weight."""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ganexp.losses.base import Loss


def over_heads(loss: Loss, heads: Sequence[int]) -> Loss:
    """Return a view of a loss that is its mean over discriminators; all of its state is shared.

    Args:
        loss: The loss.
        heads: The number of each discriminator's places in scores `(B, 1, S)`, in order; with fewer than two, the loss itself
            is returned.
    """
    if len(heads) < 2:
        return loss
    view = copy.copy(loss)
    averaged = {name: partial(_mean, getattr(loss, name), tuple(heads)) for name in ("d_loss", "g_loss", "measurements")}
    vars(view).update(averaged, observe=partial(_observe, loss, tuple(heads)))
    return view


def _observe(loss: Loss, heads: tuple[int, ...], real: Tensor, fake: Tensor) -> None:
    """Have a loss observe the mean score of each head, so that each has an equal share."""
    loss.observe(*(torch.stack([of_head.mean() for of_head in _by_head(scores, heads)]) for scores in (real, fake)))


def _mean(function: Any, heads: tuple[int, ...], real: Tensor | None, fake: Tensor) -> Any:
    """Return the mean of a function of real and fake scores over heads: of a scalar, or of each scalar by its key."""
    reals = [None] * len(heads) if real is None else _by_head(real, heads)
    values = [function(r, f) for r, f in zip(reals, _by_head(fake, heads), strict=True)]
    if isinstance(values[0], Tensor):
        return torch.stack(values).mean()
    return {key: torch.stack([value[key] for value in values]).mean() for key in values[0]}


def _by_head(scores: Tensor, heads: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return the scores of each head, `(B, 1, S_h)`."""
    if scores.dim() != 3 or scores.shape[2] != sum(heads):
        raise ValueError(
            f"the discriminator's heads={heads} have {sum(heads)} places, for scores of (B, 1, {sum(heads)}), and it returned "
            f"{tuple(scores.shape)}: let heads say how many places each has"
        )
    return scores.split(heads, 2)
