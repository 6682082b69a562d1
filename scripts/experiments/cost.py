"""Claims 5, 6 and 12: what strategies cost on one DCGAN, all of them in one race."""

import functools
from collections.abc import Callable

from matplotlib.figure import Figure

from experiments.finding import NOTICEABLE, Finding, about, at_least, rule_of, together
from experiments.racing import case_of, raced, rows_of
from experiments.training import weights_after
from ganexp.cli.commands.compare.cases import CASES, REDUNDANT
from ganexp.cli.pages.figures import bars
from ganexp.compare.cost import Measured
from ganexp.compare.intervals import Interval
from ganexp.strategies import detach, g_first, joint, retain_graph
from measuring.markdown import table
from measuring.passes import in_passes

SHARED = ("reuse_z", "resample", "detach", "retain_graph", "g_first", "joint")
RACE = (*(f"{name}{REDUNDANT}" for name in SHARED), *SHARED, "one_stage")


def two_generator_passes(*, overrides: tuple[str, ...] = CASES["dcgan 64"], turns: int = 11, iterations: int = 3) -> Finding:
    """Claim 5: the fake batch made twice, from the same latents or from fresh ones."""
    entries = raced(RACE, overrides, turns, iterations)
    verdicts, rows = {}, []
    for how in (REDUNDANT, ""):
        detach = entries[f"detach{how}"]
        for name in (f"reuse_z{how}", f"resample{how}"):
            ratio = entries[name].over(detach)
            verdicts[case_of(name)] = at_least(NOTICEABLE, ratio)
            rows.append(
                {
                    "strategy": name,
                    "time over `detach`": ratio,
                    "operations over `detach`": entries[name].gflop / detach.gflop,
                    "activations over `detach`": entries[name].peak_mib / detach.peak_mib,
                }
            )
    verdict, reason = together(verdicts)
    return Finding(
        "Two generator passes per iteration waste time, with fresh or with repeated latents.",
        verdict,
        f"{reason}. (A ratio of times counts from {NOTICEABLE}.)",
        f"{table(rows)}\n"
        "`reuse_z` gets nothing for its second pass: its updates are those of `detach`. `resample` gets independent fakes "
        "for G's step, and keeps no graph of the first batch, which is why its activations peak lower.",
        {"Time per iteration of every strategy": race_figure(entries)},
        data=rows_of(RACE, overrides, turns, iterations),
    )


def order_of_speed(*, overrides: tuple[str, ...] = CASES["dcgan 64"], turns: int = 11, iterations: int = 3) -> Finding:
    """Claim 6: retain, detach, G first."""
    entries = raced(RACE, overrides, turns, iterations)
    verdicts, rows = {}, []
    for how, said in {REDUNDANT: "redundant gradients", "": "own gradients only"}.items():
        retain, detach, g_first = (entries[f"{name}{how}"] for name in ("retain_graph", "detach", "g_first"))
        worst, best = retain.over(detach), detach.over(g_first)
        verdicts["retain slowest", said] = at_least(NOTICEABLE, worst)
        verdicts["G first fastest", said] = at_least(NOTICEABLE, best)
        for name in ("retain_graph", "detach", "g_first"):
            entry = entries[f"{name}{how}"]
            rows.append(
                {
                    "strategy": f"{name}{how}",
                    "time over `detach`": entry.over(detach),
                    "operations over `detach`": entry.gflop / detach.gflop,
                    "activations, MiB": entry.peak_mib,
                }
            )
    verdict, reason = together(verdicts)
    apart = _apart("detach", "g_first"), _apart("detach", "retain_graph")
    return Finding(
        "Of retain, detach and G first, G first is best and retain is worst.",
        verdict,
        f"{reason}. (A ratio of times counts from {NOTICEABLE}.)",
        f"{retain_in_words()}\n\n{table(rows)}\n"
        "They are not one algorithm: after 5 iterations of a small GAN in float64, G's weights under `g_first` lie "
        f"{apart[0]:.2g} (relative) from those under `detach`; those under `retain_graph` lie {apart[1]:g} from them.",
        data=rows_of(RACE, overrides, turns, iterations),
    )


def one_backward_pass(*, overrides: tuple[str, ...] = CASES["dcgan 64"], turns: int = 11, iterations: int = 3) -> Finding:
    """Claim 12: one stage instead of two."""
    entries = raced(RACE, overrides, turns, iterations)
    rivals = ("resample, redundant", "detach, redundant", "joint, redundant", "resample", "detach", "joint")
    ratios: dict[str, Interval] = {name: entries[name].over(entries["one_stage"]) for name in rivals}
    verdict, reason = together({case_of(f"against {name}"): about(1.5, ratio) for name, ratio in ratios.items()})
    if below := [f"`{name}`" for name, ratio in ratios.items() if ratio.high < 1.5]:
        reason += f". The interval lies below 1.5 itself against {'; '.join(below)}"
    rows = [
        {
            "`one_stage` against": name,
            "speed-up": ratio,
            "by operations": entries[name].gflop / entries["one_stage"].gflop,
        }
        for name, ratio in ratios.items()
    ]
    return Finding(
        "One backward pass (one-stage training) trains the same GAN 1.5 times as fast.",
        verdict,
        f"{reason}. {rule_of(1.5)}",
        f"{table(rows)}\nIts updates are those of `joint` (to rounding, as tests check), not those of `detach` or `resample`.",
        data=rows_of(RACE, overrides, turns, iterations),
    )


@functools.cache
def retain_in_words() -> str:
    """Return what claims 6 and 7 call retain, with the counted operations of its two forms and of its rivals."""

    def counted(strategy: Callable[..., None]) -> str:
        redundant, own = (in_passes(strategy, redundant_gradients=how) for how in (True, False))
        return f"{redundant[0]}d + {redundant[1]}g with redundant gradients and {own[0]}d + {own[1]}g without"

    return (
        "*Retain* means, in claims 6 and 7 alike, that `retain_graph=True` keeps the graph of the fakes for G's backward pass. "
        f"It has two forms. `retain_graph` steps D first, and scores the fakes again: {counted(retain_graph)}. `joint` keeps "
        f"D's scores, too, and runs both backward passes before either step: {counted(joint)}. `detach` and `g_first` take "
        f"{' or '.join(sorted({counted(detach), counted(g_first)}))}. Claim 6 times `retain_graph`, which is never cheaper "
        "than these; claim 7 times `joint`, which can be."
    )


def _apart(first: str, second: str) -> float:
    """Return how far two strategies drive G apart in 5 iterations from the same start, relative to its weights."""
    here, there = weights_after(5, first), weights_after(5, second)
    return float((here - there).norm() / here.norm())


def race_figure(entries: dict[str, Measured]) -> Figure:
    """Draw the time of every strategy in a race, with its counted operations."""
    baseline = entries["detach, redundant"]
    ratios = {name: entry.over(baseline) for name, entry in entries.items()}
    names = sorted(ratios, key=lambda name: ratios[name].middle, reverse=True)
    figure = Figure(figsize=(8, 1.3 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    colors = ["tab:orange" if "redundant" in name else "tab:blue" for name in names]
    label = "time per iteration, relative to detach with redundant gradients"
    bars(axes, {name: ratios[name] for name in names}, label, colors)
    axes.plot([entries[n].gflop / baseline.gflop for n in names], names, "k|", markersize=12, label="by operations")
    axes.plot([], [], color="tab:blue", linewidth=8, label="own gradients only")
    axes.plot([], [], color="tab:orange", linewidth=8, label="with redundant gradients")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure
