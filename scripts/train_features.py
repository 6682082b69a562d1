"""Train the classifier in whose features samples of a labelled data set are compared: evaluation.features=classifier.

It takes minutes on a CPU, and prints the accuracy on images that were held out.
"""

if __name__ == "__main__":
    from ganexp.cli import interrupting, quiet

    interrupting.at_once()  # while torch is imported
    quiet.wait_quietly()

import argparse
import sys
import time

import torch
from omegaconf import OmegaConf

from ganexp import compose
from ganexp.config.evaluation import classifier_file
from ganexp.config.schema import ConfigError
from ganexp.config.targets import check_node, make
from ganexp.data import default_folder, load_cached
from ganexp.evaluation.classifier import train
from ganexp.logging.documents import refuse_unwritable
from ganexp.printable import printable
from ganexp.training.execution import Machine, Unavailable
from pages.writing import writing


def main() -> None:
    """Train, say how good it is, and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="a labelled data set, such as mnist")
    parser.add_argument("overrides", nargs="*", help="settings as for train.py, such as data_root=/path dataset.image_size=64")
    parser.add_argument("--epochs", type=_positive, help="passes through the data; by default about 180,000 images are seen")
    parser.add_argument("--device", type=_device, default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    remedy = "name another folder with GANEXP_CACHE"
    try:
        node = OmegaConf.to_container(compose(f"dataset={arguments.dataset}", *arguments.overrides).dataset, resolve=True)
        assert isinstance(node, dict)
        settings = {str(key): value for key, value in node.items()}
        check_node("dataset", settings)
        dataset = make(settings, "dataset")
        if len(dataset.shape) != 3 or not getattr(dataset, "classes", 0):
            raise ConfigError(f"dataset={arguments.dataset} has no labelled images: choose one that has, such as mnist.")
        path = classifier_file(settings)
        with writing(path, remedy):
            refuse_unwritable(path)
        images, labels = load_cached(dataset, default_folder(), place="resident"), dataset.labels()
    except (ConfigError, OSError) as error:
        sys.exit(f"Error: {printable(error)}")
    assert isinstance(images, torch.Tensor)
    epochs = arguments.epochs or max(1, round(180_000 / len(images)))
    began = time.perf_counter()
    classifier = train(images, labels, arguments.dataset, epochs=epochs, device=arguments.device)
    with writing(path, remedy):
        classifier.save(path)
    print(
        f"It knows {classifier.origin.accuracy:.2%} of held-out images of {arguments.dataset}, after {epochs} epochs in "
        f"{time.perf_counter() - began:.0f} s.\n  features {path}, checksum {classifier.checksum}"
    )


def _positive(typed: str) -> int:
    if not typed.isdecimal() or not int(typed):
        raise argparse.ArgumentTypeError(f"should be a number of at least 1, not {typed}")
    return int(typed)


def _device(typed: str) -> torch.device:
    try:
        return Machine.resolved(typed, "auto").device
    except (Unavailable, RuntimeError):
        raise argparse.ArgumentTypeError(f"should be cpu, cuda or cuda:N, and be there, not {typed}") from None


if __name__ == "__main__":
    interrupting.run(main)
