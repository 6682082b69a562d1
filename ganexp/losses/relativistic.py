"""Relativistic losses: they compare the scores of real and generated samples with each other.

Scores are logits. Both losses are invariant to a shift of all scores, so their mean may drift: see `score/real` and
`score/fake`. They are written with logsigmoid, as in `ganexp.losses.logistic`.
"""

from torch import Tensor
from torch.nn.functional import logsigmoid

from ganexp.losses.base import Loss


class RaGAN(Loss):
    """Compare each sample with the average of the other kind (Jolicoeur-Martineau 2018, RaSGAN).

    With f̄ and r̄ the means over the batch: L_D = ½ [mean sp(−(r − f̄)) + mean sp(f − r̄)], and L_G is the same with reals
    and fakes swapped. Departure: half of the paper's sum, so that both losses are ln 2 where scores cannot be told apart.
    """

    g_needs_real = True

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return _more_real_on_average(real, fake)

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        assert real is not None
        return _more_real_on_average(fake, real)


class RpGAN(Loss):
    """Compare the samples in pairs, the i-th real one with the i-th fake (Jolicoeur-Martineau 2018, RSGAN).

    L_D = mean sp(f − r), L_G = mean sp(r − f). Huang et al. 2024 (R3GAN) add R1 and R2, without which it need
    not converge: `penalty=r1r2`.
    """

    g_needs_real = True
    pairs = True
    log_ratio = True

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        return _more_real_in_pairs(real, fake)

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        assert real is not None
        return _more_real_in_pairs(fake, real)


def _more_real_on_average(first: Tensor, second: Tensor) -> Tensor:
    """Return the loss of the first scores being below the second's mean, and the second above the first's."""
    return -0.5 * (logsigmoid(first - second.mean()).mean() + logsigmoid(first.mean() - second).mean())


def _more_real_in_pairs(first: Tensor, second: Tensor) -> Tensor:
    if first.shape != second.shape:
        raise ValueError(f"RpGAN pairs real with fake scores, but there are {len(first)} of one and {len(second)} of the other")
    return -logsigmoid(first - second).mean()
