"""Train the classifier whose features are used to compare samples of a labelled data set: evaluation.features=classifier.

It takes minutes on a CPU, and prints the accuracy on images that were held out.
"""

from argparse import ArgumentParser, Namespace

from ganexp.cli import shared_options as shared
from ganexp.cli.composing import compose
from ganexp.facts import UserError

POINTS = ("ring", "grid")
"""The data sets that are points; those of unlabelled images are refused when torch is there."""
NO_IMAGES = "dataset={} has no labelled images: choose one that has, such as mnist."


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("dataset", help="a labelled data set, such as mnist")
    parser.add_argument(
        "overrides", nargs="*", default=[], help="settings as for training, such as data_root=/path dataset.image_size=64"
    )
    parser.add_argument(
        "--epochs", type=shared.positive, help="passes through the data; by default enough to look at 45,000 to 180,000 images"
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda or cuda:N; auto is a GPU if there is one")


def refuse(options: Namespace) -> None:
    """Refuse an invalid device, and settings that the data set does not have."""
    shared.refuse_device(options.device, "auto, cpu")
    if options.dataset in POINTS:
        raise UserError(NO_IMAGES.format(options.dataset))
    compose(f"dataset={options.dataset}", *options.overrides)
