"""Terms that compare samples with their targets by features of D, or of a frozen network."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.instruments.scalar import Scalar
from ganexp.ranges import checked
from ganexp.terms.base import Generated, Term

Distance = Callable[[Tensor, Tensor], Tensor]
"""Maps samples and targets, `(B, C, H, W)` in [-1, 1] each, to one distance for each pair, `(B,)`."""


class FeatureMatching(Term):
    """weight · mean over D's layers of mean |φ(G(s)) − φ(t)| (after Wang et al. 2018, pix2pixHD, equation 4, weight 10).

    φ are the features that D's method `features` returns for samples without augmentation; they include the source if D reads
    it. Those of the target are constants of G's objective. Each of G's updates takes two further passes of D.
    Departure: a mean over the layers of all discriminators. The authors sum over the layers of each, and their code takes the
    mean over discriminators, so that their weight times the layers of one is the same here; HiFi-GAN (Kong et al. 2020,
    equation 5) sums over all.
    """

    needs_target = True
    reads_discriminator = True
    measures: ClassVar = Scalar(
        "mean absolute difference between D's features of outputs and of targets, over the interval", best="lowest"
    )

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 10.0) -> None:
        self.weight: float | Tensor = weight

    def __call__(self, generated: Generated) -> Tensor:
        pairs = zip(
            generated.features(generated.fake),
            generated.compared(replace(generated.fake, values=generated.target)),
            strict=True,
        )
        return torch.stack([(a - b).abs().flatten(1).mean(1) for a, b in pairs]).mean(0)


class Perceptual(Term):
    """weight · mean distance of G(s) and t in features of a frozen network (Johnson et al. 2016, equation 2).

    With `network=classifier`, it is that of the data set, which ganexp trains: the mean over its convolutions of mean squared
    differences after ReLU. With `alex` or `vgg` it is LPIPS, as for `measure.lpips`.

    Args:
        weight: λ.
        network: Whose features.
        weights: The file of torchvision's weights for `alex` and `vgg`; None is where torchvision downloads to.
        distance: The distance itself, from Python; None leaves it to the run.
    """

    needs_target = True
    measures: ClassVar = Scalar("mean perceptual distance between outputs and targets, over the interval", best="lowest")

    @checked
    def __init__(
        self,
        *,
        weight: Annotated[float, Ge(0)] = 1.0,
        network: Literal["classifier", "alex", "vgg"] = "classifier",
        weights: str | None = None,
        distance: Distance | None = None,
    ) -> None:
        self.weight: float | Tensor = weight
        self.network = network
        self.weights = weights
        self.distance = distance

    def __call__(self, generated: Generated) -> Tensor:
        if self.distance is not None:
            return self.distance(generated.fake.values, generated.target)
        if not generated.fake.values.is_meta:
            raise ValueError("a perceptual term needs a distance: give Perceptual(distance=…)")
        return (generated.fake.values - generated.target).flatten(1).mean(1)  # nothing is computed
