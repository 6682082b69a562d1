"""`ganexp features`: train the classifier whose features serve to compare samples."""

import argparse

from ganexp.cli.commands.features import NO_IMAGES
from ganexp.cli.composing import compose
from ganexp.config.choices import choose
from ganexp.config.features import classifier_file
from ganexp.config.plain import plain
from ganexp.documents import refuse_unwritable
from ganexp.evaluation.classifier import train_and_store
from ganexp.facts import UserError
from ganexp.training.execution import Machine


def run(options: argparse.Namespace) -> None:
    """Train the classifier, store it, and print how good it is."""
    try:
        device = Machine.resolved(options.device, "auto").device
    except (UserError, RuntimeError):
        raise UserError(f"--device should be auto, cpu, cuda or cuda:N, and be there, not {options.device}.") from None
    settings = plain(compose(f"dataset={options.dataset}", *options.overrides).dataset)
    dataset = choose("dataset", settings).make()
    if len(dataset.shape) != 3 or not dataset.classes:
        raise UserError(NO_IMAGES.format(options.dataset))
    path = classifier_file(settings)
    try:
        refuse_unwritable(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}; name another folder with GANEXP_CACHE.") from None
    print(train_and_store(path, dataset, options.dataset, epochs=options.epochs, device=device))
