"""ganexp: a laboratory for the update strategies of GAN training."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganexp.batch import Batch
    from ganexp.cli.composing import compose
    from ganexp.config.build import build
    from ganexp.config.loading import load, load_discriminator
    from ganexp.facts import Facts, Misfit, UserError
    from ganexp.gan import GAN, Game
    from ganexp.prior import Prior
    from ganexp.training import Step, Trainer
    from ganexp.watching import watch

HOMES = {
    "Batch": "ganexp.batch",
    "Facts": "ganexp.facts",
    "GAN": "ganexp.gan",
    "Game": "ganexp.gan",
    "Misfit": "ganexp.facts",
    "Prior": "ganexp.prior",
    "Step": "ganexp.training",
    "Trainer": "ganexp.training",
    "UserError": "ganexp.facts",
    "build": "ganexp.config.build",
    "compose": "ganexp.cli.composing",
    "load": "ganexp.config.loading",
    "load_discriminator": "ganexp.config.loading",
    "watch": "ganexp.watching",
}
"""Where each name is defined; imported when it is first used, so that `--help` need not wait for torch."""

__all__ = [
    "GAN",
    "Batch",
    "Facts",
    "Game",
    "Misfit",
    "Prior",
    "Step",
    "Trainer",
    "UserError",
    "build",
    "compose",
    "load",
    "load_discriminator",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name in ("strategies", "wrappers"):  # what a trainer with `import ganexp` alone chooses its rule from
        return importlib.import_module(f"{__name__}.{name}")
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)
