"""Draw how far two equal algorithms drift apart by rounding, in float32 and in float64: measured, not sketched.

    python scripts/draw_rounding.py --output docs/rounding.png

`joint` and `one_stage` are one algorithm, computed in another order. Each trains the default run from the same weights, on
the same latents and batches; the figure shows the relative distance of G's weights, beside that of `joint` with two seeds.
"""

if __name__ == "__main__":
    from ganexp.cli import interrupting, quiet

    interrupting.at_once()  # while torch is imported
    quiet.wait_quietly()

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from ganexp import build, compose
from ganexp.cli.commands.pages.writing import refuse_unwritable, writing

ITERATIONS = 300
PRECISIONS = {"fp32": "tab:orange", "fp64": "tab:blue"}


def weights(overrides: Sequence[str], iterations: int) -> Iterator[Tensor]:
    """Train on a CPU, and yield the generator's weights after each iteration, in float64."""
    trainer = build(compose("device=cpu", "logger=[]", f"iterations={iterations}", *overrides))
    for _ in range(iterations):
        trainer.step(trainer.reals)
        yield torch.cat([p.detach().flatten().double() for p in trainer.gan.generator.parameters()])


def distances(one: Sequence[str], other: Sequence[str], iterations: int) -> list[float]:
    """Return ‖a − b‖ / ‖a‖ after each iteration of two runs."""
    first = list(weights(one, iterations))
    return [((a - b).norm() / a.norm()).item() for a, b in zip(first, weights(other, iterations), strict=True)]


def draw(iterations: int = ITERATIONS, overrides: Sequence[str] = ()) -> Figure:
    """Train every pair, and draw one line for each."""
    joint, one_stage = (["strategy=joint", *overrides], ["strategy=one_stage", *overrides])
    pairs = {"joint, two seeds, float32": ([*joint, "precision=fp32"], [*joint, "precision=fp32", "seed=1"], "0.5")}
    for precision, color in PRECISIONS.items():
        label = f"joint and one_stage, {precision.replace('fp', 'float')}"
        pairs[label] = ([*joint, f"precision={precision}"], [*one_stage, f"precision={precision}"], color)
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axes = figure.subplots()
    for label, (one, other, color) in pairs.items():
        axes.plot(range(1, iterations + 1), distances(one, other, iterations), color=color, label=label)
    axes.set(yscale="log", xlim=(1, iterations), xlabel="iteration", ylabel="relative distance of G's weights")
    axes.grid(color="0.9")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figure into a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("outputs/rounding.png"))
    options = parser.parse_args(arguments)
    refuse_unwritable(options.output)
    with writing(options.output):
        options.output.parent.mkdir(parents=True, exist_ok=True)
        draw().savefig(options.output, dpi=110)


if __name__ == "__main__":
    interrupting.run(main)
