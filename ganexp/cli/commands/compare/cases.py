"""The GANs whose strategies are compared: settings, and trainers built from settings."""

from ganexp.cli.composing import compose
from ganexp.config.build import build
from ganexp.training import Trainer

FAKE = ("dataset=fake",)
CASES = {
    "mlp": (
        *FAKE,
        "dataset.image_size=32",
        "dataset.channels=1",
        "generator=mlp",
        "discriminator=mlp",
        "batch_size=64",
    ),
    "dcgan 32": (*FAKE, "dataset.image_size=32", "generator.width=64", "discriminator.width=64", "batch_size=64"),
    "dcgan 64": (*FAKE, "dataset.image_size=64", "generator.width=64", "discriminator.width=64", "batch_size=32"),
    "began 64": (
        "experiment=began",
        "schedule=constant",
        "strategy=detach",
        *FAKE,
        "dataset.image_size=64",
        "generator.width=32",
        "discriminator.width=32",
        "batch_size=8",
    ),
}
"""All use `detach`, as do the plain loops beside them. BEGAN's width is half the paper's, so that a CPU can run it."""

REDUNDANT = ", redundant"
"""Suffix of a strategy's name: with the redundant gradients of textbook backward passes."""


def trainer_of(*overrides: str) -> Trainer:
    """Build a trainer as the command line would, without the averaged generator, which costs the same in every strategy."""
    return build(compose("average=none", *overrides))


def settings_of(name: str) -> tuple[str, str]:
    """Return the settings of a strategy given by its name, with or without `REDUNDANT`."""
    return f"strategy={name.removesuffix(REDUNDANT)}", f"redundant_gradients={str(name.endswith(REDUNDANT)).lower()}"
