"""Approximations of R1 and R2 by differences of scores, without second derivatives."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor

from ganexp.batch import Batch, Discriminator
from ganexp.facts import Facts, Misfit
from ganexp.penalties.base import Demand, Seen, evenly_spread
from ganexp.penalties.lazy import Lazy
from ganexp.ranges import checked
from ganexp.streams import stream


class ApproximateR1(Lazy):
    """weight · mean (D(x) − D(x + noise · ε))² at real samples, ε standard normal (Lin et al. 2025, APT).

    As noise → 0, its mean over ε is weight · noise² · mean ‖∇D(x)‖², which is `R1` with γ = 2 · weight · noise². D(x) is the
    score of the loss, so D runs one further pass, on a share of the batch; a sample's score is the mean over its places. No
    gradient is differentiated, so that networks may be compiled and batches split into parts. Augmentations that change images
    are refused, since they would change both images differently. Under mixed precision the difference of scores has to exceed
    the narrower type's rounding.

    Args:
        weight: The paper's λ.
        noise: The paper's σ, in the units of the samples.
        share: Share of a batch's samples that is used, spread evenly over the batch. Several processes use the same samples as
            one process if the share of each is a whole number.
        every: As in `Lazy`.
    """

    needs_logits = True
    demands: frozenset[Demand] = frozenset({"gradient norm 0"})
    on_device: ClassVar = {"weight": None, "noise": None}
    fixed: ClassVar = {"share": "decides the shape of a pass of D"}
    purpose = "approximate r1"

    @checked
    def __init__(
        self,
        *,
        weight: Annotated[float, Ge(0)] = 100.0,
        noise: Annotated[float, Gt(0)] = 0.01,
        share: Annotated[float, Gt(0), Le(1)] = 1.0,
        every: Annotated[int, Ge(1)] = 1,
    ) -> None:
        super().__init__(weight=weight, every=every)
        self.noise = noise
        self.share = share

    def check(self, run: Facts) -> None:
        super().check(run)
        if run.augmented:
            raise Misfit("compares the scores of two images, which an augmentation changes differently", augment="none")

    def begin(self, seed: int, device: torch.device) -> None:
        self.rng = stream(seed, self.purpose, device)

    def at(self, real: Any, fake: Any) -> tuple[Any, ...]:
        """Return the samples, or the scores, that the penalty is taken at."""
        return (real,)

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor:
        pairs = zip(self.at(x, fake), self.at(seen.real_scores, seen.fake_scores), strict=True)
        return torch.stack([self.rise(seen.score, batch, scores) for batch, scores in pairs]).sum()

    def rise(self, score: Callable[[Batch], Tensor], batch: Batch, scores: Tensor) -> Tensor:
        """Return the mean squared difference between scores of samples with and without noise, a scalar."""
        count = max(1, round(self.share * len(batch)))
        values, conditions = batch.values + self.noise * self.drawn(batch.values), [*batch.conditions]
        if count < len(batch):
            spread = evenly_spread(count, len(batch), scores.device)
            scores, values, *conditions = (tensor.index_select(0, spread) for tensor in (scores, values, *conditions))
        difference = scores - score(Batch(values, tuple(conditions)))
        return difference.view(count, -1).mean(1).square().mean()

    def drawn(self, values: Tensor) -> Tensor:
        """Draw ε for each sample, `(B, …)`."""
        drawn = values.new_empty(self.processes.count * len(values), *values.shape[1:])
        return self.processes.own(drawn.normal_(generator=self.rng))


class ApproximateR2(ApproximateR1):
    """The same at generated samples, an approximation of `R2`."""

    reads_scores = True
    purpose = "approximate r2"

    def at(self, real: Any, fake: Any) -> tuple[Any, ...]:
        return (fake,)


class ApproximateR1R2(ApproximateR1):
    """The sum of both with one weight, an approximation of `R1R2`."""

    reads_scores = True
    purpose = "approximate r1 and r2"

    def at(self, real: Any, fake: Any) -> tuple[Any, ...]:
        return real, fake
