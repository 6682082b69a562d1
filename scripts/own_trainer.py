"""Train the games of docs/your_own_trainer.md by several rules, and draw what changes with the rule.

python scripts/own_trainer.py                    # all five, in a few minutes on one core
python scripts/own_trainer.py domains table      # two of them
python scripts/own_trainer.py --seeds 1 --shorter 10 --output outputs/games
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from games.constrained import Constrained
from games.domains import Domains
from games.table import Table
from games.tokenizer import Tokenizer
from games.vocoder import Vocoder
from ganexp import Step, strategies
from ganexp.documents import refuse_unwritable
from ganexp.wrappers import Pretrain

DOCS = Path(__file__).resolve().parent.parent / "docs"
POINTS = 20
"""How often a run is measured."""


@dataclass(frozen=True)
class Experiment:
    """A game, the rules that train it, and what is measured.

    Args:
        kind: The class of the game.
        measure: Its method that returns the figure.
        label: What the figure is.
        iterations: Of a run.
        rules: What makes each strategy, with the further arguments of the game, by its label.
        logarithmic: Whether the figure has a logarithmic axis.
    """

    kind: Callable[..., Any]
    measure: str
    label: str
    iterations: int
    rules: dict[str, tuple[Callable[[], Any], dict[str, Any]]]
    logarithmic: bool = False

    def run(self, rule: str, seed: int, shorter: int = 1) -> tuple[list[int], list[float]]:
        """Train by a rule, and return iterations and figures."""
        make, arguments = self.rules[rule]
        players = self.kind(seed)
        step, batches = Step(players.game(**arguments), make()), players.batches()
        iterations: list[int] = []
        figures: list[float] = []
        every = max(1, self.iterations // shorter // POINTS)
        for iteration in range(1, self.iterations // shorter + 1):
            step(batches)
            if iteration % every == 0:
                iterations.append(iteration)
                figures.append(getattr(players, self.measure)())
        return iterations, figures


def _named(*names: str) -> dict[str, tuple[Callable[[], Any], dict[str, Any]]]:
    return {name: (lambda name=name: strategies.by_name()[name], {}) for name in names}  # type: ignore[misc]


def _decoding(**pretrain: int) -> tuple[Callable[[], Any], dict[str, Any]]:
    return (lambda: Pretrain(strategies.detach, **pretrain)), {}


EXPERIMENTS = {
    "vocoder": Experiment(
        *(Vocoder, "distance", "distance of log mel spectrograms", 240), _named("detach", "joint", "extragradient")
    ),
    "domains": Experiment(
        *(Domains, "accuracy", "accuracy on the target", 400),
        {"no domains (weight 0)": (lambda: strategies.detach, {"weight": 0.0})} | _named("joint", "detach", "extragradient"),
    ),
    "table": Experiment(
        *(Table, "distance", "Wasserstein distance", 1000),
        _named("joint", "detach", "resample", "extragradient"),
        logarithmic=True,
    ),
    "tokenizer": Experiment(
        *(Tokenizer, "error", "mean absolute error", 800),
        {
            "detach": _decoding(g=0),
            "pretrain g=400": _decoding(g=400),
            "pretrain g=200 beside=200": _decoding(g=200, beside=200),
        },
    ),
    "constrained": Experiment(
        *(Constrained, "distance", "distance from the solution", 600),
        _named("joint", "detach", "extragradient", "competitive"),
        logarithmic=True,
    ),
}


def drawn(experiment: Experiment, seeds: int, shorter: int = 1) -> Figure:
    """Return the median over seeds by rule, and every seed in a paler colour; print where the runs end."""
    figure = Figure(figsize=(5.6, 2.9), dpi=110, layout="constrained")
    axes = figure.subplots()
    for number, rule in enumerate(experiment.rules):
        runs = [experiment.run(rule, seed, shorter) for seed in range(seeds)]
        iterations, colour = runs[0][0], f"C{number}"
        for _, figures in runs:
            axes.plot(iterations, figures, color=colour, alpha=0.25, linewidth=0.8)
        middle = [statistics.median(at) for at in zip(*(figures for _, figures in runs), strict=True)]
        axes.plot(iterations, middle, color=colour, label=rule, linestyle=("-", "--", "-.", ":")[number % 4])
        print(f"  {rule:<26} {middle[-1]:.3g}  ({', '.join(f'{figures[-1]:.3g}' for _, figures in runs)})", flush=True)
    axes.set(xlabel="iteration", ylabel=experiment.label)
    if experiment.logarithmic:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", nargs="*", metavar="GAME", help=f"of {', '.join(EXPERIMENTS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=3, help="seeds from 0 (default: 3)")
    parser.add_argument("--shorter", type=int, default=1, help="divide iterations by this number (default: 1)")
    parser.add_argument("--output", type=Path, default=DOCS, help="the folder of the pictures (default: docs/)")
    options = parser.parse_args(arguments)
    if unknown := {*options.games} - {*EXPERIMENTS}:
        parser.error(f"no game is called {', '.join(sorted(unknown))}: choose from {', '.join(EXPERIMENTS)}")
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.games or EXPERIMENTS:
        path = options.output / f"game_{name}.png"
        refuse_unwritable(path)
        print(f"{name}: {EXPERIMENTS[name].label} after {EXPERIMENTS[name].iterations // options.shorter} iterations")
        drawn(EXPERIMENTS[name], options.seeds, options.shorter).savefig(path)


if __name__ == "__main__":
    process.run(main)
