"""`ganexp features`: train the classifier whose features serve to compare samples."""

import argparse
import sys

import torch
from omegaconf import OmegaConf

from ganexp.cli.commands.pages.writing import refuse_unwritable
from ganexp.cli.composing import compose
from ganexp.config.choices import choose
from ganexp.config.evaluation import classifier_file
from ganexp.config.schema import ConfigError
from ganexp.evaluation import EvaluationError
from ganexp.evaluation.classifier import train_and_store
from ganexp.printable import printable
from ganexp.training.execution import Machine, Unavailable


def main(options: argparse.Namespace) -> None:
    """Train the classifier, store it, and print how good it is."""
    remedy = "name another folder with GANEXP_CACHE"
    try:
        device = _device(options.device)
        node = OmegaConf.to_container(compose(f"dataset={options.dataset}", *options.overrides).dataset, resolve=True)
        assert isinstance(node, dict)
        settings = {str(key): value for key, value in node.items()}
        dataset = choose("dataset", settings).make()
        if len(dataset.shape) != 3 or not dataset.classes:
            raise ConfigError(f"dataset={options.dataset} has no labelled images: choose one that has, such as mnist.")
        path = classifier_file(settings)
        refuse_unwritable(path, remedy)
        said = train_and_store(path, dataset, options.dataset, epochs=options.epochs, device=device)
    except (ConfigError, EvaluationError, OSError) as error:
        sys.exit(f"Error: {printable(error)}")
    print(said)


def _device(typed: str) -> torch.device:
    try:
        return Machine.resolved(typed, "auto").device
    except (Unavailable, RuntimeError):
        raise ConfigError(f"--device should be auto, cpu, cuda or cuda:N, and be there, not {typed}.") from None
