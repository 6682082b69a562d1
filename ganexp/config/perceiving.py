"""The networks that perceptual terms look through: the classifier of a run's data set, or those of LPIPS."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from ganexp.config.assemble import Parts
from ganexp.config.choices import Choices
from ganexp.config.evaluation import EvaluationPlan
from ganexp.evaluation import LPIPS, Classifier
from ganexp.facts import Facts, UserError
from ganexp.terms import Perceptual
from ganexp.terms.features import Distance


def check_perceptual(choices: Choices, parts: Parts, facts: Facts) -> None:
    """Refuse perceptual terms whose network is not here."""
    for name, term in _perceptual(parts).items():
        if term.network != "classifier":
            choices[f"term.{name}"].ask(LPIPS(network=term.network, weights=term.weights).check, facts)
        elif facts.dataset.classes < 2:
            raise UserError(
                f"term.{name}.network=classifier is trained on classes, and {choices['dataset'].called} has none: choose "
                f"term.{name}.network=vgg, or term=[l1]."
            )


def distances(parts: Parts, planned: EvaluationPlan, device: torch.device) -> dict[str, Distance]:
    """Return the distance of each perceptual term by its name; a classifier is trained if it is missing."""
    return {name: _distance(name, term, planned, device) for name, term in _perceptual(parts).items()}


def _perceptual(parts: Parts) -> Mapping[str, Perceptual]:
    return {name: term for name, term in parts.terms.items() if isinstance(term, Perceptual) and term.distance is None}


def _distance(name: str, term: Perceptual, planned: EvaluationPlan, device: torch.device) -> Distance:
    if term.network != "classifier":
        return LPIPS(network=term.network, weights=term.weights).differentiable(device)
    try:
        classifier = planned.classifier(device)
    except UserError as error:
        raise UserError(f"term.{name}.network=classifier: {str(error).rstrip('.')}.") from error
    return _BetweenMaps(classifier)


class _BetweenMaps:
    """The mean over a classifier's convolutions of mean squared differences after ReLU, `(B,)`."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier

    def __call__(self, samples: Tensor, targets: Tensor) -> Tensor:
        pairs = zip(self.classifier.maps(samples), self.classifier.maps(targets), strict=True)
        return torch.stack([mse_loss(a, b, reduction="none").flatten(1).mean(1) for a, b in pairs]).mean(0).to(samples.dtype)
