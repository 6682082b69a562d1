"""What a benchmark returns, and how its contenders are raced."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from matplotlib.figure import Figure

from experiments.finding import Interval, of_median
from measuring import Contender, race, spread, synchronize

QUIET = ("wandb.mode=disabled", "ema=off", "iterations=1000000000", "log_every=1000000000")
FAKE = ("dataset=fake",)
BEGAN = ("experiment=began", "strategy=detach", "dataset=fake")
MNIST = ("dataset.image_size=32", "dataset.channels=1", "dataset.n=60000")
CASES = {
    "mlp": (
        "dataset=fake",
        "dataset.image_size=32",
        "dataset.channels=1",
        "generator=mlp",
        "discriminator=mlp",
        "batch_size=64",
    ),
    "dcgan 32": ("dataset=fake", "dataset.image_size=32", "generator.width=64", "discriminator.width=64", "batch_size=64"),
    "dcgan 64": ("dataset=fake", "dataset.image_size=64", "generator.width=64", "discriminator.width=64", "batch_size=32"),
    "began 64": (
        "experiment=began",
        "dataset=fake",
        "dataset.image_size=64",
        "generator.width=32",
        "discriminator.width=32",
        "batch_size=8",
    ),
}
"""Settings that several benchmarks share. BEGAN's width is half the paper's, so that a CPU gets through."""


@dataclass
class Section:
    """One benchmark's part of the page: Markdown, and figures with captions."""

    title: str
    text: str
    figures: dict[str, Figure] = field(default_factory=dict)


@dataclass
class Timed:
    """Milliseconds per iteration of one contender, turn by turn."""

    times_ms: list[float]

    @property
    def median_ms(self) -> float:
        """The median over turns."""
        return spread(self.times_ms)[1]

    def over(self, other: "Timed") -> Interval:
        """Return how many times as long as another one of the same race it takes: the median of ratios, turn by turn."""
        return of_median([mine / theirs for mine, theirs in zip(self.times_ms, other.times_ms, strict=True)])


def timed(steps: Mapping[str, Callable[[], None]], *, repeats: int, turn_s: float, device: torch.device) -> dict[str, Timed]:
    """Race contenders, with as many iterations per turn as take about `turn_s` seconds."""
    for step in steps.values():
        for _ in range(6):  # kernels are chosen, compiled or recorded
            step()
    synchronize(device)
    start = time.perf_counter()
    for step in steps.values():
        step()
    synchronize(device)
    each_s = (time.perf_counter() - start) / len(steps)
    contenders = [Contender(name, step) for name, step in steps.items()]
    race(contenders, repeats=repeats, iterations=max(1, round(turn_s / each_s)), device=device)
    return {contender.name: Timed(contender.times_ms) for contender in contenders}


def bars(ratios: Mapping[str, Interval], label: str) -> Figure:
    """Draw ratios to 1 as bars with their intervals."""
    figure = Figure(figsize=(8, 1 + 0.32 * len(ratios)), layout="constrained")
    axes = figure.subplots()
    names = list(ratios)[::-1]
    middles = [ratios[name].middle for name in names]
    errors = [[ratios[n].middle - ratios[n].low for n in names], [ratios[n].high - ratios[n].middle for n in names]]
    axes.barh(names, middles, xerr=errors, color="tab:blue", ecolor="0.25", capsize=2)
    axes.axvline(1, color="0.25", linewidth=0.8, linestyle=":")
    axes.set(xlabel=label)
    return figure
