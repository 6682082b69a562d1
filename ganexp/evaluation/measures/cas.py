"""The classification accuracy score."""

from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le

from ganexp.evaluation.base import Measure, high
from ganexp.evaluation.classifier import BATCH, ClassifierRecord, accuracy, fitted
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import LabelledImages
from ganexp.facts import Facts, Misfit
from ganexp.ranges import checked


class CAS(Measure[LabelledImages]):
    """Classification accuracy score: the accuracy on real images of a classifier trained on generated ones only.

    (Ravuri & Vinyals 2019, section 3.) The classifier is ours, of the kind that gives the default features. It is retrained at
    every evaluation, in the same way each time. The score of one half of the real data against the other is the best that can
    be expected. The paper's authors train a ResNet-50 and test it on held-out images: `evaluation.against=test`.
    Scores compare only where data, classifier and number of samples are the same, and so with no published score.

    Args:
        max_samples: The maximum number of generated images to train on, and of real ones to test.
        seen: The images of all epochs together, which bounds the time; a smaller set has several epochs.
    """

    keys: ClassVar = {"eval/cas": high("accuracy on real images of a classifier trained on generated ones")}
    keeps = LabelledImages
    looks_at_labels = True

    @checked
    def __init__(
        self, *, max_samples: Annotated[int, Ge(BATCH), Le(10**7)] = 50_000, seen: Annotated[int, Ge(BATCH), Le(10**9)] = 45_000
    ) -> None:
        self.max_samples, self.seen = max_samples, seen

    def check(self, run: Facts) -> None:
        super().check(run)
        if len(run.shape) != 3:
            raise Misfit("trains a classifier of images, and these data are points")
        if run.classes < 2:
            raise Misfit("trains a classifier, and these data have one class, which any classifier knows")

    def least(self, features: Features, of: str) -> int:
        return BATCH  # of the classifier

    def __call__(self, real: LabelledImages, fake: LabelledImages) -> dict[str, float]:
        """Return the accuracy, from 0 to 1."""
        channels, height, width = fake.images.shape[1:]
        classes = 1 + max(int(rows.labels.max()) for rows in (real, fake))
        classifier = fitted(
            ClassifierRecord("generated", (channels, height, width), classes),
            fake.images,
            fake.labels,
            torch.arange(len(fake.images)),
            epochs=max(1, round(self.seen / len(fake.images))),
            device=fake.device,
            description="Training a classifier on samples",
        )
        return {"eval/cas": accuracy(classifier, real.images, real.labels)}
