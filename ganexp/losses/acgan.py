"""Auxiliary classification, around any loss on logits."""

from typing import Annotated, ClassVar

from annotated_types import Gt
from torch import Tensor

from ganexp.batch import further_of, scores_of
from ganexp.facts import Facts, Misfit
from ganexp.instruments.scalar import Scalar
from ganexp.losses.base import Loss
from ganexp.ranges import checked


class ACGAN(Loss):
    """D also classifies images, and G makes images that D classifies correctly (Odena et al. 2017, equations 2 and 3).

    D returns the cross-entropy of each image's own label after its score: c_r of reals, and c_f of fakes under the labels that
    they were generated from. With the two losses of `base`, L_D = base + weight · (mean c_r + mean c_f) and
    L_G = base + weight · mean c_f. As in the paper, D learns from the classes of fakes too; other code often leaves that out.
    Departure: the paper has no weight, and a saturating loss for G: that is `base` minimax and `weight` 1.

    Args:
        base: The loss of the scores, on logits.
        weight: What the class losses are multiplied by, in both objectives.
    """

    reads = "class_loss"
    on_device: ClassVar = {"weight": None}
    measures: ClassVar = {
        "acgan/real": Scalar("cross-entropy of D's classification of real images", "last,min"),
        "acgan/fake": Scalar("cross-entropy of D's classification of generated images", "last,min", label="class"),
    }

    @checked
    def __init__(self, *, base: Loss, weight: Annotated[float, Gt(0)] = 1.0) -> None:
        super().__init__()
        if not isinstance(base, Loss) or base.reads:
            raise ValueError("base should be a loss of scores alone, as in loss@loss.base=hinge")
        self.base = base
        self.weight = weight
        self.accepts = base.accepts
        self.g_needs_real = base.g_needs_real
        self.low_is_real = base.low_is_real
        self.pairs = base.pairs
        self.boundary = base.boundary
        self.fits_sigmoid = base.fits_sigmoid
        self.measures = {**base.measures, **type(self).measures}  # type: ignore[misc]  # the class has its own alone

    def check(self, run: Facts) -> None:
        if run.scores and run.scores not in self.accepts:
            inside, kinds = type(self.base).__name__, " or ".join(sorted(self.accepts))
            reason = f"is based on {inside}, which needs {kinds} scores, and the discriminator returns {run.scores} scores"
            raise Misfit(reason, **{"loss@loss.base": "nonsaturating"})
        super().check(run)

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        classes = further_of(real).mean() + further_of(fake).mean()
        return self.base.d_loss(scores_of(real), scores_of(fake)) + self.weight * classes

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        loss = self.base.g_loss(None if real is None else scores_of(real), scores_of(fake))
        return loss + self.weight * further_of(fake).mean()

    def observe(self, real: Tensor, fake: Tensor) -> None:
        self.base.observe(scores_of(real), scores_of(fake))

    def measurements(self, real: Tensor, fake: Tensor) -> dict[str, Tensor]:
        classes = {"acgan/real": further_of(real).mean(), "acgan/fake": further_of(fake).mean()}
        return self.base.measurements(scores_of(real), scores_of(fake)) | classes
