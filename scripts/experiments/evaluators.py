"""Evaluators of an experiment's samples, by measures of the package, the first of which is the distance from the data."""

from typing import Any

import torch

from ganexp import compose
from ganexp.data import Dataset, Digits, Ring
from ganexp.data.vision import MNIST
from ganexp.evaluation import FID, Evaluator, Measure, ModeCounting, Raw, SlicedWasserstein, real_batches
from ganexp.evaluation.classifier import train

FEATURES = (
    "The Fréchet distance (Heusel et al. 2017) is that of 64 features of a small classifier trained on the same data, not of "
    "Inception's: it compares arms on one dataset of this page, and is no FID as papers give it."
)


def of_ring() -> Evaluator:
    """Return the evaluator of the sliced Wasserstein distance from the ring, and of the modes that are covered."""
    ring = Ring(n=10_000)
    measures: dict[str, Measure[Any]] = {"sliced_wasserstein": SlicedWasserstein(), "modes": ModeCounting()}
    evaluator = Evaluator(measures, Raw(ring.shape), samples=2500, modes=ring.modes)
    evaluator.see_reals(real_batches(ring.load()), ring.n)
    return evaluator


def of_digits(image_size: int) -> Evaluator:
    """Return the evaluator of the Fréchet distance from scikit-learn's digits."""
    return _of_images(Digits(image_size=image_size), "digits", epochs=50)


def of_mnist(image_size: int) -> Evaluator:
    """Return the evaluator of the Fréchet distance from MNIST's training part, which lies where runs look for it.

    Raises:
        OSError: The data set is neither there nor available from the network.
    """
    return _of_images(MNIST(compose("dataset=mnist").data_root, image_size=image_size), "mnist", epochs=3)


def distance_of(evaluator: Evaluator) -> str:
    """Return the key of the distance from the data, which is never below 0."""
    return next(iter(evaluator.keys))


def _of_images(dataset: Dataset, name: str, *, epochs: int) -> Evaluator:
    images = torch.as_tensor(dataset.load())
    evaluator = Evaluator({"fid": FID()}, train(images, dataset.labels(), name, epochs=epochs), samples=2000)
    evaluator.see_reals(real_batches(images), len(images))
    return evaluator
