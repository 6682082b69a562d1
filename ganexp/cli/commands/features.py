"""`ganexp features`: train the classifier in whose features samples are compared."""

import argparse
import sys
import time

import torch
from omegaconf import OmegaConf

from ganexp.cli.commands.pages.writing import writing
from ganexp.cli.composing import compose
from ganexp.config.evaluation import classifier_file
from ganexp.config.schema import ConfigError
from ganexp.config.targets import check_node, make
from ganexp.data import default_folder, load_cached
from ganexp.evaluation.classifier import train
from ganexp.logging.documents import refuse_unwritable
from ganexp.printable import printable
from ganexp.training.execution import Machine, Unavailable


def main(options: argparse.Namespace) -> None:
    """Train, say how good it is, and store it."""
    remedy = "name another folder with GANEXP_CACHE"
    try:
        device = _device(options.device)
        node = OmegaConf.to_container(compose(f"dataset={options.dataset}", *options.overrides).dataset, resolve=True)
        assert isinstance(node, dict)
        settings = {str(key): value for key, value in node.items()}
        check_node("dataset", settings)
        dataset = make(settings, "dataset")
        if len(dataset.shape) != 3 or not dataset.classes:
            raise ConfigError(f"dataset={options.dataset} has no labelled images: choose one that has, such as mnist.")
        path = classifier_file(settings)
        with writing(path, remedy):
            refuse_unwritable(path)
        images, labels = load_cached(dataset, default_folder(), place="resident"), dataset.labels()
    except (ConfigError, OSError) as error:
        sys.exit(f"Error: {printable(error)}")
    assert isinstance(images, torch.Tensor)
    epochs = options.epochs or max(1, round(180_000 / len(images)))
    began = time.perf_counter()
    classifier = train(images, labels, options.dataset, epochs=epochs, device=device)
    with writing(path, remedy):
        classifier.save(path)
    print(
        f"It knows {classifier.origin.accuracy:.2%} of held-out images of {options.dataset}, after {epochs} epochs in "
        f"{time.perf_counter() - began:.0f} s.\n  features {path}, checksum {classifier.checksum}"
    )


def _device(typed: str) -> torch.device:
    try:
        return Machine.resolved(typed, "auto").device
    except (Unavailable, RuntimeError):
        raise ConfigError(f"--device should be auto, cpu, cuda or cuda:N, and be there, not {typed}.") from None
