"""Strategies raced against each other: times side by side in one run, operations and activations counted."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from compare_strategies import compose, count
from experiments.finding import Interval, of_median
from measuring import Contender, operations, race

QUIET = ("wandb.mode=disabled", "ema=off", "iterations=1000000000")
DCGAN_64 = ("dataset=fake", "dataset.image_size=64", "generator.width=64", "discriminator.width=64", "batch_size=32")


@dataclass
class Entry:
    """What was measured of one strategy: milliseconds of each turn, Gflop, and the peak of activations in MiB."""

    times_ms: list[float]
    gflop: float
    peak_mib: float

    def over(self, other: "Entry") -> Interval:
        """Return how many times as long as another one of the same race it takes, turn by turn."""
        return of_median([mine / theirs for mine, theirs in zip(self.times_ms, other.times_ms, strict=True)])


@functools.cache
def raced(names: tuple[str, ...], overrides: Sequence[str], repeats: int, iterations: int) -> dict[str, Entry]:
    """Race strategies, each given by its name, with `, redundant` behind it for textbook backward passes.

    The result is kept, since several claims are about the same race.
    """
    trainers = {name: compose(*QUIET, *overrides, *_options(name)) for name in names}
    contenders = [Contender(name, trainer.iterate, trainer.gan, trainer.timer.read_ms) for name, trainer in trainers.items()]
    device = next(iter(trainers.values())).device
    counted = [count(contender, device) for contender in contenders]
    race(contenders, repeats=repeats, iterations=iterations, device=device)
    return {contender.name: Entry(contender.times_ms, *counts) for contender, counts in zip(contenders, counted, strict=True)}


def passes(overrides: Sequence[str]) -> tuple[float, float]:
    """Return the Gflop of one forward pass of a batch through G and through D."""
    gan = compose(*QUIET, *overrides).gan
    with torch.no_grad():
        z = gan.sample()
        fake = gan.generate(z)
        return operations(lambda: gan.generate(z)) / 1e9, operations(lambda: gan.score_fake(fake)) / 1e9


def _options(name: str) -> list[str]:
    strategy, _, redundant = name.partition(", ")
    return [f"strategy={strategy}", f"redundant_gradients={str(bool(redundant)).lower()}"]
