"""What a run leaves to be loaded again."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ganexp.gan import GAN
from ganexp.training.ema import NoEMA


def checkpoint(gan: GAN, ema: NoEMA, strategy: Callable[..., None], iteration: int, config: dict[str, Any]) -> dict[str, Any]:
    """Gather a run's state as tensors and plain values, which `torch.load(..., weights_only=True)` accepts."""
    return {
        "generator": gan.generator.state_dict(),
        "discriminator": gan.discriminator.state_dict(),
        "loss": gan.loss.state_dict(),
        "ema": ema.state_dict(),
        "strategy": getattr(strategy, "state_dict", dict)(),
        "optimizer_g": gan.optimizer_g.state_dict(),
        "optimizer_d": gan.optimizer_d.state_dict(),
        "iteration": iteration,
        "g_updates": gan.g_updates,
        "d_updates": gan.d_updates,
        "config": config,
    }


def save(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that `path` always holds a whole one: beside it first, then renamed over it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
