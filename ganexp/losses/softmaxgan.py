"""Softmax cross-entropy over the whole batch, real and generated together."""

import math
from typing import ClassVar

import torch
from torch import Tensor

from ganexp.instruments.scalar import Scalar
from ganexp.losses.base import Loss


class SoftmaxGAN(Loss):
    """Spread the mass of one softmax over 2B scores: D on the real half, G on all (Lin 2017, equations 6 to 9).

    With Z = Σ e^(−r) + Σ e^(−f): L_D = mean r + ln Z, L_G = mean over all scores + ln Z. A low score means real.
    Both are invariant to a shift of all scores, so their mean may drift: see `score/real` and `score/fake`. Here the scores are
    shifted so that the lowest one, which has most of the mass, is 0; otherwise the softmax would lose digits as the mean
    drifts. L_D is at least ln B and L_G at least ln 2B, and the excesses over these bounds are logged. If D scores places of
    each sample, B counts the places of the batch.
    """

    accepts = frozenset({"logit", "energy"})
    g_needs_real = True
    low_is_real = True
    measures: ClassVar = {
        "softmaxgan/d_excess": Scalar("how far D's loss lies above ln B", "last,min"),
        "softmaxgan/g_excess": Scalar("how far G's loss lies above ln 2B", "last,min"),
    }

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        scores = _from_lowest(torch.cat([real.flatten(), fake.flatten()]))
        return scores[: real.numel()].mean() + (-scores).logsumexp(0)

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        assert real is not None
        scores = _from_lowest(torch.cat([real.flatten(), fake.flatten()]))
        return scores.mean() + (-scores).logsumexp(0)

    def measurements(self, real: Tensor, fake: Tensor) -> dict[str, Tensor]:
        return {
            "softmaxgan/d_excess": self.d_loss(real, fake) - math.log(real.numel()),
            "softmaxgan/g_excess": self.g_loss(real, fake) - math.log(real.numel() + fake.numel()),
        }


def _from_lowest(scores: Tensor) -> Tensor:
    """Shift scores so that the lowest is 0; no gradient passes through the shift."""
    return scores - scores.detach().amin()
