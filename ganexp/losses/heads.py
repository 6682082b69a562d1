"""Several discriminators in one: the mean of a loss over them, however many places each of them scores."""

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ganexp.losses.base import Loss


def over_heads(loss: Loss, heads: Sequence[int]) -> Loss:
    """Return a view of a loss that is its mean over groups of neighbouring places; all its state is shared.

    Args:
        loss: The loss.
        heads: How many of the places of scores `(B, 1, S)` belong to each discriminator, in their order; with fewer than two,
            the loss is returned as it is.
    """
    if len(heads) < 2:
        return loss
    view = copy.copy(loss)
    averaged = {name: partial(_mean, getattr(loss, name), tuple(heads)) for name in ("d_loss", "g_loss", "measurements")}
    vars(view).update(averaged, observe=partial(_observe, loss, tuple(heads)))
    return view


def _observe(loss: Loss, heads: tuple[int, ...], real: Tensor, fake: Tensor) -> None:
    """Have a loss observe the mean score of each head, so that each has an equal share."""
    loss.observe(*(torch.stack([one.mean() for one in _by_head(scores, heads)]) for scores in (real, fake)))


def _mean(of: Any, heads: tuple[int, ...], real: Tensor | None, fake: Tensor) -> Any:
    """Return the mean of a function of real and fake scores over heads: of a scalar, or of each scalar by its key."""
    reals = [None] * len(heads) if real is None else _by_head(real, heads)
    found = [of(r, f) for r, f in zip(reals, _by_head(fake, heads), strict=True)]
    if isinstance(found[0], Tensor):
        return torch.stack(found).mean()
    return {key: torch.stack([one[key] for one in found]).mean() for key in found[0]}


def _by_head(scores: Tensor, heads: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Return the scores of each head, `(B, 1, S_h)`."""
    if scores.dim() != 3 or scores.shape[2] != sum(heads):
        raise ValueError(
            f"the discriminator's heads={heads} have {sum(heads)} places, for scores of (B, 1, {sum(heads)}), and it returned "
            f"{tuple(scores.shape)}: let heads say how many places each has"
        )
    return scores.split(heads, 2)
