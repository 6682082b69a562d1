"""Claim 7: which of retain and G first is cheaper, as D grows heavier than G."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from experiments.cost import retain_in_words
from experiments.finding import NOTICEABLE, Finding, Verdict, at_least
from experiments.racing import raced, rows_of
from ganexp.cli.commands.compare.cases import trainer_of
from ganexp.cli.pages.figures import reaches
from ganexp.compare.intervals import Interval
from measuring.markdown import table
from measuring.passes import forward_gflop

RACE = ("joint, redundant", "g_first, redundant", "joint", "g_first", "one_stage")
WIDTHS = (12, 16, 24, 32, 48, 64, 96)


def sizes(width: int, image_size: int = 32) -> tuple[str, ...]:
    """Return the settings of a D of some width beside G."""
    return ("dataset=fake", f"dataset.image_size={image_size}", "generator.width=32", f"discriminator.width={width}")


def retain_for_a_heavy_discriminator(
    *, widths: Sequence[int] = WIDTHS, image_size: int = 32, turns: int = 11, iterations: int = 3
) -> Finding:
    """Race `joint` (both backward passes over one graph) against `g_first` while D's width grows and G's stays."""
    rows, data, weights, redundant, own, counted = [], [], [], [], [], []
    for width in widths:
        size = sizes(width, image_size)
        g, d = forward_gflop(trainer_of(*size).gan)
        entries = raced(RACE, size, turns, iterations)
        data += rows_of(RACE, size, turns, iterations)
        weights.append(d / g)
        redundant.append(entries["joint, redundant"].over(entries["g_first, redundant"]))
        own.append(entries["joint"].over(entries["g_first"]))
        counted.append(entries["joint, redundant"].gflop / entries["g_first, redundant"].gflop)
        rows.append(
            {
                "D's width": width,
                "d/g": d / g,
                "operations, redundant": counted[-1],
                "time, redundant": redundant[-1],
                "operations, own only": entries["joint"].gflop / entries["g_first"].gflop,
                "time, own only": own[-1],
                "`one_stage` over `joint`, time": entries["one_stage"].over(entries["joint"]),
            }
        )
    crossing = crossings(weights, [ratio.middle for ratio in redundant]), crossings(weights, counted)
    by_width = Verdict.CONFIRMED if crossing[0] is not None else Verdict.REFUTED
    always = all(at_least(NOTICEABLE, ratio) is not Verdict.CONFIRMED for ratio in own)
    above = max((w for w, ratio in zip(weights, redundant, strict=True) if ratio.low > 1), default=0)
    below = min((w for w, ratio in zip(weights, redundant, strict=True) if ratio.high < 1), default=np.inf)
    where = f"at d/g between {above:.2g} and {below:.2g}" if crossing[0] is not None else "nowhere in the range"
    by_count = f"{crossing[1]:.2f}" if crossing[1] is not None else "none"
    verdict = by_width if not always else Verdict.DEPENDS if by_width is Verdict.CONFIRMED else Verdict.REFUTED
    return Finding(
        "Choose retain when D is much heavier than G, else G first.",
        verdict,
        f"With redundant gradients the two cross {where} by time (by operations: {by_count}; 8d + 5g = 9d + 3g at 2); with own "
        f"gradients only, retain (`joint`) is {'nowhere shown to be slower' if always else 'slower in places'}, "
        f"so G first {'saves no time' if always else 'saves time there'}.",
        f"{retain_in_words()}\n\n`joint` over `g_first`; below 1, keeping the graph is cheaper.\n\n{table(rows)}",
        {"`joint` against `g_first` as D grows heavier": _plot(weights, redundant, own, counted)},
        data=data,
    )


def crossings(weights: Sequence[float], ratios: Sequence[float]) -> float | None:
    """Return where falling ratios cross 1, interpolated on a logarithmic axis, or None if they do not."""
    if not min(ratios) < 1 < max(ratios):
        return None
    order = np.argsort(ratios)
    return float(np.exp(np.interp(0, np.log(ratios)[order], np.log(weights)[order])))


def _plot(weights: list[float], redundant: list[Interval], own: list[Interval], counted: list[float]) -> Figure:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, ratios, color in (("redundant gradients", redundant, "tab:orange"), ("own gradients only", own, "tab:blue")):
        middles = [ratio.middle for ratio in ratios]
        axes.errorbar(weights, middles, reaches(ratios), color=color, marker="o", capsize=2, label=f"time, {name}")
    axes.plot(weights, counted, color="tab:orange", linestyle="--", label="operations, redundant gradients")
    axes.axhline(1, color="0.25", linewidth=0.8)
    axes.axvline(2, color="0.25", linewidth=0.8, linestyle=":", label="d = 2g")
    axes.set(xscale="log", xlabel="d/g: operations of a pass through D over one through G", ylabel="joint over g_first")
    axes.set_xticks(weights, [f"{weight:.2g}" for weight in weights])
    axes.minorticks_off()
    axes.legend()
    return figure
