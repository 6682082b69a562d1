"""Draw, for each strategy, which autograd graph is alive when: measured, not sketched.

    python scripts/draw_graphs.py --output docs/graphs.png

One iteration of each strategy runs with hooks on everything that autograd saves. Every pass through a network owns
what it saved; its bar spans from that pass to the moment when the last of it is freed. A pass without a bar built no graph.
"""

if __name__ == "__main__":
    from ganexp.cli import interrupting, quiet

    interrupting.at_once()  # while torch is imported
    quiet.wait_quietly()

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ganexp import strategies
from ganexp.cli.commands.pages.writing import refuse_unwritable, writing
from ganexp.compare.tracing import traced

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


def draw() -> Figure:
    """Draw one panel per strategy."""
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
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    handles = [Patch(color=COLORS[letter], label=f"{letter}  {LABELS[letter]}") for letter in COLORS]
    figure.legend(handles=handles, title=STEPS, loc="outside lower center", ncols=3, frameon=False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figure into a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("outputs/graphs.png"))
    options = parser.parse_args(arguments)
    refuse_unwritable(options.output)
    with writing(options.output):
        options.output.parent.mkdir(parents=True, exist_ok=True)
        draw().savefig(options.output, dpi=110)


if __name__ == "__main__":
    interrupting.run(main)
