"""Class labels of a conditional GAN: whether data have them, and networks read them."""

import inspect
from typing import Any

import torch
from torch import Tensor

from ganexp.config.schema import Config, ConfigError
from ganexp.config.targets import name_of, target


def classes_of(dataset: Any, config: Config) -> int:
    """Return how many classes the networks are to be conditioned on; 0 for an unconditional GAN.

    Raises:
        ConfigError: The data have no labels, or a network does not read any.
    """
    if not config.conditional:
        return 0
    try:
        classes = getattr(dataset, "classes", 0)
    except OSError as error:
        raise ConfigError(f"dataset: {error}.") from error
    if not hasattr(dataset, "labels") or not isinstance(classes, int) or classes < 1:
        raise ConfigError(
            f"conditional=true needs data with class labels, and dataset={name_of(config.dataset)} has none: choose "
            "conditional=false, a set with labels, an image_folder with a sub-folder for each class, or shards with a "
            "label for each image."
        )
    for key in ("generator", "discriminator"):
        node = getattr(config, key)
        if "classes" not in inspect.signature(target(node, key)).parameters:
            raise ConfigError(
                f"conditional=true needs networks that read class labels, and {key}={name_of(node)} does not: "
                "choose dcgan, resnet, r3gan or mlp."
            )
    return classes


def labels_of(dataset: Any, classes: int) -> Tensor | None:
    """Read the class of every sample, `(N,)`; None for an unconditional GAN.

    Raises:
        ConfigError: They cannot be read.
    """
    if not classes:
        return None
    try:
        labels: Tensor = dataset.labels()
    except (OSError, ValueError) as error:
        raise ConfigError(f"dataset: {error}.") from error
    return labels


def frequencies_of(labels: Tensor | None, classes: int) -> list[float] | None:
    """Return how often each class occurs; None for an unconditional GAN."""
    return None if labels is None else torch.bincount(labels, minlength=classes).double().tolist()
