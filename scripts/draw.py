"""Draw a figure of docs/strategies.md: measured, not sketched.

    python scripts/draw.py graphs --output docs/graphs.png
    python scripts/draw.py rounding --output docs/rounding.png

`graphs` shows, for each strategy, which autograd graph is alive when. One iteration runs with hooks on everything that autograd
saves. Every pass through a network owns what it saved; its bar spans from that pass to the moment when the last of it is freed.
A pass without a bar built no graph.

`rounding` shows how far two equal algorithms drift apart by rounding, in float32 and in float64. `joint` and `one_stage` are
one algorithm, computed in another order. Each trains the default run from the same weights, on the same latents and batches;
the figure shows the relative distance of G's weights, beside that of `joint` with two seeds.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from ganexp import build, compose, strategies
from ganexp.compare.tracing import traced
from ganexp.documents import refuse_unwritable

COLORS = {"G": "tab:green", "r": "0.55", "f": "tab:orange"}
LABELS = {"G": "generate", "r": "score real images", "f": "score fakes"}
STEPS = (
    "z  sample latents        D+  update D        G+  update G        DG+  update both        "
    "a dot without a bar: a pass that built no graph"
)
DRAWN: dict[str, Callable[..., None]] = {
    "resample": strategies.resample,
    "reuse_z": strategies.reuse_z,
    "detach": strategies.detach,
    "retain_graph": strategies.retain_graph,
    "g_first": strategies.g_first,
    "g_first_resample": strategies.g_first_resample,
    "joint": strategies.joint,
    "one_stage": strategies.OneStage(),
    "extragradient": strategies.Extragradient(),
}


def graphs() -> Figure:
    """Draw the lives of graphs, one panel per strategy."""
    columns = 3
    rows = len(DRAWN) // columns
    figure = Figure(figsize=(4.2 * columns, 1.9 * rows + 0.9), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, (name, strategy) in zip(panels, DRAWN.items(), strict=True):
        gan = traced(strategy)
        trace, passes = gan.trace, gan.passes
        for line, one in enumerate(passes):
            color = COLORS[one.letter]
            axes.plot(one.start + 0.5, line, marker="o", markersize=5, color=color)
            if one.end > one.start:
                axes.barh(line, one.end - one.start - 0.1, left=one.start + 0.5, height=0.55, color=color, alpha=0.75)
        axes.set_title(name, loc="left", fontsize=10, family="monospace")
        axes.set_xticks([i + 0.5 for i in range(len(trace))], trace, family="monospace", fontsize=9)
        axes.set(xlim=(0, len(trace) + 0.8), ylim=(len(passes) - 0.4, -0.6), yticks=[])
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
    handles = [Patch(color=COLORS[letter], label=f"{letter}  {LABELS[letter]}") for letter in COLORS]
    figure.legend(handles=handles, title=STEPS, loc="outside lower center", ncols=3, frameon=False)
    return figure


def rounding(iterations: int = 300, overrides: Sequence[str] = ()) -> Figure:
    """Train every pair, and draw one line for each."""
    joint, one_stage = ["strategy=joint", *overrides], ["strategy=one_stage", *overrides]
    fp32, fp64 = "precision=fp32", "precision=fp64"
    pairs = {
        "joint, two seeds, float32": ([*joint, fp32], [*joint, fp32, "seed=1"], "0.5"),
        "joint and one_stage, float32": ([*joint, fp32], [*one_stage, fp32], "tab:orange"),
        "joint and one_stage, float64": ([*joint, fp64], [*one_stage, fp64], "tab:blue"),
    }
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axes = figure.subplots()
    for label, (one, other, color) in pairs.items():
        axes.plot(range(1, iterations + 1), distances(one, other, iterations), color=color, label=label)
    axes.set(yscale="log", xlim=(1, iterations), xlabel="iteration", ylabel="relative distance of G's weights")
    axes.grid(color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def distances(one: Sequence[str], other: Sequence[str], iterations: int) -> list[float]:
    """Return ‖a − b‖ / ‖a‖ after each iteration of two runs."""
    pairs = zip(list(weights(one, iterations)), weights(other, iterations), strict=True)
    return [((a - b).norm() / a.norm()).item() for a, b in pairs]


def weights(overrides: Sequence[str], iterations: int) -> Iterator[Tensor]:
    """Train on a CPU, and yield the generator's weights after each iteration, in float64."""
    trainer = build(compose("device=cpu", "logger=[]", f"iterations={iterations}", *overrides))
    for _ in range(iterations):
        trainer.step(trainer.reals)
        yield torch.cat([p.detach().flatten().double() for p in trainer.gan.generator.parameters()])


FIGURES: dict[str, Callable[[], Figure]] = {"graphs": graphs, "rounding": rounding}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw a figure into a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--output", type=Path, help="the picture (default outputs/FIGURE.png)")
    options = parser.parse_args(arguments)
    path: Path = options.output or Path(f"outputs/{options.figure}.png")
    refuse_unwritable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    FIGURES[options.figure]().savefig(path, dpi=110)


if __name__ == "__main__":
    process.run(main)
