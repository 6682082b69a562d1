"""Draw a figure of docs/strategies.md, measured and not sketched, or the diagram of docs/guide.md.

    python scripts/draw.py graphs --output docs/graphs.png
    python scripts/draw.py rounding --output docs/rounding.png
    python scripts/draw.py concepts --output docs/concepts.png

`graphs` shows, for each strategy, which autograd graph is alive when. One iteration runs with hooks on everything that autograd
saves. Every pass through a network owns what it saved; its bar spans from that pass to the moment when the last of it is freed.
A pass without a bar built no graph.

`rounding` shows how far two equal algorithms drift apart by rounding, in float32 and in float64. `joint` and `one_stage` are
one algorithm, computed in another order. Each trains the default run from the same weights, on the same latents and batches;
the figure shows the relative distance of G's weights, beside that of `joint` with two seeds.

`concepts` shows what a run is made of: what is computed from what, and what lies in what.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch
from torch import Tensor

from ganexp import build, compose, strategies
from ganexp.documents import refuse_unwritable
from measuring.tracing import traced

COLORS = {"G": "tab:green", "r": "0.55", "f": "tab:orange"}
LABELS = {"G": "generate", "r": "score real images", "f": "score fakes"}
STEPS = (
    "z  sample latents        D+  update D        G+  update G        DG+  update both        "
    "a dot without a bar: a pass that built no graph"
)
CONCEPTS = (  # name, what it is, color, left and right edge, top and bottom
    ("configuration", "what was typed, as plain values,\nwith the defaults of conf/", "tab:blue", 0, 12, 0, 2),
    ("plan", "the parts that were chosen, each made once;\nthey fit, and nothing is written yet", "tab:purple", 0, 12, 3, 5),
    ("trainer", "repeats the step, and writes the run folder", "0.35", 0, 12, 6, 13.1),
    ("step", "one iteration, with its rates and the average", "0.35", 0.4, 11.6, 7.5, 12.7),
    ("strategy", "which network\nmoves when,\non which fakes", "tab:orange", 0.8, 4.9, 9.1, 12.3),
    ("GAN", "networks, loss,\npenalties,\noptimisers", "tab:green", 7.4, 11.2, 9.1, 12.3),
)
ARROW = {"arrowstyle": "-|>", "color": "0.2", "linewidth": 1.5}
DRAWN = ("resample", "reuse_z", "detach", "retain_graph", "g_first", "g_first_resample", "joint", "one_stage", "extragradient")


def graphs() -> Figure:
    """Draw the lives of graphs, one panel per strategy."""
    columns = 3
    rows = len(DRAWN) // columns
    figure = Figure(figsize=(4.2 * columns, 1.9 * rows + 0.9), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, name in zip(panels, DRAWN, strict=True):
        gan = traced(strategies.by_name()[name])
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


def concepts() -> Figure:
    """Draw the words of docs/guide.md as boxes, one below or inside another."""
    figure = Figure(figsize=(6.4, 7.2), layout="constrained")
    axes = figure.subplots()
    for name, said, color, left, right, top, bottom in CONCEPTS:
        face = [0.9 + 0.1 * part for part in to_rgb(color)]
        style = "round,pad=0,rounding_size=0.25"
        axes.add_patch(FancyBboxPatch((left, top), right - left, bottom - top, style, facecolor=face, edgecolor=color))
        axes.text(left + 0.25, top + 0.2, name, va="top", fontsize=14, weight="bold", color=color)
        axes.text(left + 0.25, top + 0.85, said, va="top", fontsize=13, linespacing=1.3)
    for top, said in {2: "checked by one iteration without memory", 5: "data obtained, networks built"}.items():
        axes.annotate("", (1, top + 1), (1, top), arrowprops=ARROW)
        axes.text(1.4, top + 0.5, said, va="center", fontsize=13, style="italic")
    axes.annotate("", (7.4, 10.7), (4.9, 10.7), arrowprops=ARROW)
    axes.text(6.15, 10.55, "generate\nd_loss", ha="center", va="bottom", fontsize=11, family="monospace")
    axes.text(6.15, 10.85, "update_d\n…", ha="center", va="top", fontsize=11, family="monospace")
    axes.set(xlim=(-0.1, 12.1), ylim=(13.2, -0.1))
    axes.set_axis_off()
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


FIGURES: dict[str, Callable[[], Figure]] = {"graphs": graphs, "rounding": rounding, "concepts": concepts}


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
