"""The networks that perceptual terms look through: the classifier of a run's data set, or those of LPIPS."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from ganexp.config.assemble import Parts
from ganexp.config.choices import Choices
from ganexp.config.features import classifier_of
from ganexp.config.schema import Node
from ganexp.data import Dataset
from ganexp.evaluation import LPIPS, Classifier
from ganexp.facts import Facts, UserError
from ganexp.terms import Perceptual, Term
from ganexp.terms.features import Distance


def check_perceptual(choices: Choices, parts: Parts, facts: Facts) -> None:
    """Refuse perceptual terms whose network is not here."""
    for name, term in _perceptual(parts.terms).items():
        if term.network != "classifier":
            choices[f"term.{name}"].ask(LPIPS(network=term.network, weights=term.weights).check, facts)
        elif facts.dataset.classes < 2:
            raise UserError(
                f"term.{name}.network=classifier is trained on classes, and {choices['dataset'].called} has none: choose "
                f"term.{name}.network=vgg, or term=[l1]."
            )


def distances_of(terms: Mapping[str, Term], dataset: Dataset, node: Node, device: torch.device) -> dict[str, Distance]:
    """Return the distance of each perceptual term by its name; a classifier is trained if it is missing.

    Args:
        terms: All terms, by name.
        dataset: The data set, whose classifier some may look through.
        node: What the configuration says of it.
        device: Where the networks lie.
    """

    def distance(name: str, term: Perceptual) -> Distance:
        if term.network != "classifier":
            return LPIPS(network=term.network, weights=term.weights).differentiable(device)
        try:
            return _BetweenMaps(classifier_of(dataset, node, device))
        except UserError as error:
            raise UserError(f"term.{name}.network=classifier: {str(error).rstrip('.')}.") from error

    return {name: distance(name, term) for name, term in _perceptual(terms).items()}


def _perceptual(terms: Mapping[str, Term]) -> Mapping[str, Perceptual]:
    return {name: term for name, term in terms.items() if isinstance(term, Perceptual) and term.distance is None}


class _BetweenMaps:
    """The mean over a classifier's convolutions of mean squared differences after ReLU, `(B,)`."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier

    def __call__(self, samples: Tensor, targets: Tensor) -> Tensor:
        pairs = zip(self.classifier.maps(samples), self.classifier.maps(targets), strict=True)
        return torch.stack([mse_loss(a, b, reduction="none").flatten(1).mean(1) for a, b in pairs]).mean(0).to(samples.dtype)
