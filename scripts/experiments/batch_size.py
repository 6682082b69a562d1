"""Claims 8 and 9: is G first faster, for BEGAN and for DCGAN, from small batches to the largest that fit?"""

import multiprocessing
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.finding import Finding, about, rule_of, together
from experiments.racing import case_of, raced, rows_of
from ganexp.cli.commands.compare.cases import trainer_of
from ganexp.cli.pages.figures import reaches
from ganexp.compare.cost import Measured
from ganexp.compare.intervals import Interval, of_ratio
from ganexp.compare.racing import synchronize
from measuring.markdown import table

RACE = ("g_first, redundant", "detach, redundant", "retain_graph, redundant", "g_first", "detach", "retain_graph")
BEGAN = (
    "experiment=began",
    "schedule=constant",
    "dataset=fake",
    "dataset.image_size=32",
    "generator.width=32",
    "discriminator.width=32",
)
DCGAN = ("dataset=fake", "dataset.image_size=64", "generator.width=32", "discriminator.width=32")
BEGAN_BATCHES, DCGAN_BATCHES = (2, 8, 32), (4, 16, 64, 256)
COUNTS = (1, 10)
"""After how many iterations a strategy in a fresh process is timed."""


def began_eight_times_faster(
    *,
    overrides: tuple[str, ...] = BEGAN,
    batches: Sequence[int] = BEGAN_BATCHES,
    turns: int = 11,
    iterations: int = 1,
    cold_starts: int = 5,
) -> Finding:
    """Claim 8: BEGAN, whose discriminator is an autoencoder; and what a cold start makes of a comparison."""
    finding = _swept("BEGAN trains about 8 times as fast with G first.", 8.0, overrides, batches, turns, iterations)
    finding.where = f"on a {'GPU' if torch.cuda.is_available() else 'CPU'}"
    starts = _started_cold(overrides, cold_starts)
    finding.data = [*finding.data, *starts]
    cold = {count: _first_over_second(starts, count) for count in COUNTS}
    rows = [{"iterations timed": count, "the first over the second": ratio} for count, ratio in cold.items()]
    finding.evidence += (
        "\nOne way to see a factor that is not there: in a fresh process, time one strategy and then the other. The first "
        f"pays for loading data, starting threads and warming caches (medians over {cold_starts} processes for each order, "
        f"both orders pooled, so that what is left is due to going first):\n\n{table(rows)}\n"
        f"So going first makes a factor of at most about {cold[1].high:.2g}, far from 8. A GPU whose memory is "
        "almost full was not tried."
    )
    return finding


def dcgan_ten_percent_faster(
    *, overrides: tuple[str, ...] = DCGAN, batches: Sequence[int] = DCGAN_BATCHES, turns: int = 11, iterations: int = 1
) -> Finding:
    """Claim 9: DCGAN."""
    return _swept("DCGAN trains about 10 % faster with G first.", 1.1, overrides, batches, turns, iterations)


def _swept(
    claim: str, claimed: float, overrides: tuple[str, ...], batches: Sequence[int], turns: int, iterations: int
) -> Finding:
    entries = _until_memory_ends(overrides, batches, turns, iterations)
    speedups: dict[str, dict[int, Interval]] = {name: {} for name in RACE if not name.startswith("g_first")}
    rows = []
    for batch, race in entries.items():
        for name in speedups:
            mine = race["g_first, redundant" if "redundant" in name else "g_first"]
            speedups[name][batch] = race[name].over(mine)
            rows.append(
                {
                    "batch": batch,
                    "`g_first` against": name,
                    "speed-up": speedups[name][batch],
                    "by operations": race[name].gflop / mine.gflop,
                    "its memory": mine.peak_mib / race[name].peak_mib,
                }
            )
    verdicts = {
        (" with ".join(case_of(f"against {name}")), f"batch {batch}"): about(claimed, ratio)
        for name, by in speedups.items()
        for batch, ratio in by.items()
    }
    verdict, reason = together(verdicts)
    low, high = (pick(r.middle for by in speedups.values() for r in by.values()) for pick in (min, max))
    reason = f"Speed-ups from {low:.2f} to {high:.2f}. {reason}. {rule_of(claimed)}"
    memory = "allocated" if torch.cuda.is_available() else "of activations"
    evidence = f"Memory is the peak {memory}, relative to the other strategy's.\n\n{table(rows)}"
    figures = {f"Speed-up of `g_first`, claimed to be {claimed:g}": _plot(claimed, speedups)}
    data = [row for batch in entries for row in rows_of(RACE, (*overrides, f"batch_size={batch}"), turns, iterations)]
    return Finding(claim, verdict, reason, evidence, figures, data=data)


def _until_memory_ends(
    overrides: tuple[str, ...], batches: Sequence[int], turns: int, iterations: int
) -> dict[int, dict[str, Measured]]:
    """Race at each batch size, and on a GPU at ever larger ones until the next does not fit."""
    entries = {batch: raced(RACE, (*overrides, f"batch_size={batch}"), turns, iterations) for batch in batches}
    batch = max(batches)
    while torch.cuda.is_available():
        batch *= 4
        try:
            entries[batch] = raced(RACE, (*overrides, f"batch_size={batch}"), turns, iterations)
        except torch.cuda.OutOfMemoryError:
            break
    return entries


def _started_cold(overrides: tuple[str, ...], processes: int) -> list[dict[str, object]]:
    """Time two strategies one after the other in each of some fresh processes: rows by process, place and iterations."""
    settings = (*overrides, "dataset=digits")
    rows: list[dict[str, object]] = []
    context = multiprocessing.get_context("spawn")
    for turn, order in enumerate((("detach", "g_first"), ("g_first", "detach")) * processes):
        with ProcessPoolExecutor(1, context) as pool:
            times = pool.submit(_times_from_cold, order, settings).result()
        rows += [
            {"settings": " ".join(settings), "strategy": name, "iterations": n, "turn": turn, "ms": ms, "started": place}
            for name, place, by_count in zip(order, ("first", "second"), times, strict=True)
            for n, ms in by_count.items()
        ]
    return rows


def _times_from_cold(order: tuple[str, str], settings: tuple[str, ...]) -> list[dict[int, float]]:
    """Return for each strategy, by the iterations timed, the milliseconds since its trainer began to be built."""
    times = []
    for strategy in order:
        start = time.perf_counter()
        trainer = trainer_of(*settings, f"strategy={strategy}")
        elapsed = {}
        for done in range(1, max(COUNTS) + 1):
            trainer.step(trainer.reals)
            if done in COUNTS:
                synchronize(trainer.gan.prior.device)
                elapsed[done] = 1000 * (time.perf_counter() - start)
        times.append(elapsed)
    return times


def _first_over_second(starts: Sequence[Mapping[str, Any]], count: int) -> Interval:
    """Return the time of the strategy that went first over that of the other, both orders pooled."""
    first, second = (
        [row["ms"] for row in starts if row["iterations"] == count and row["started"] == place] for place in ("first", "second")
    )
    return of_ratio(first, second)


def _plot(claimed: float, speedups: dict[str, dict[int, Interval]]) -> Figure:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes, batches = figure.subplots(), list(speedups["detach"])
    for i, (name, by_batch) in enumerate(speedups.items()):
        ratios, beside = list(by_batch.values()), 1.04 ** (i - (len(speedups) - 1) / 2)  # intervals would cover each other
        style = "--" if "redundant" in name else "-"
        color = "tab:blue" if name.startswith("detach") else "tab:orange"
        middles, label = [ratio.middle for ratio in ratios], f"against {name}"
        at = [beside * batch for batch in batches]
        axes.errorbar(at, middles, reaches(ratios), color=color, linestyle=style, marker="o", capsize=2, label=label)
    axes.axhline(1, color="0.25", linewidth=0.8)
    axes.axhline(claimed, color="tab:red", linewidth=1, linestyle=":", label="claimed")
    axes.set(xscale="log", yscale="log", xlabel="batch size", ylabel="speed-up of g_first")
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.yaxis.set_major_locator(MaxNLocator())
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend()
    return figure
