"""`ganexp compare`: compare update strategies on this machine, side by side."""

import argparse
import csv
import io
import statistics
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from tqdm import tqdm

from ganexp.augmentations import NoAugmentation
from ganexp.cli.commands.compare.cases import CASES, REDUNDANT, settings_of, trainer_of
from ganexp.cli.pages.figures import bars
from ganexp.cli.pages.machine import machine
from ganexp.compare import plain_loops
from ganexp.compare.cost import Cost, Measured, cost, measured
from ganexp.compare.intervals import CONFIDENCE, Interval
from ganexp.compare.plain_loops import images_of
from ganexp.compare.racing import Contender
from ganexp.config.defaults import option_files
from ganexp.documents import atomic_write, refuse_unwritable, write_text
from ganexp.facts import UserError
from ganexp.gan import GAN
from ganexp.penalties import NoPenalty

BASELINE = f"detach{REDUNDANT}"
Row = dict[str, Any]
SHOWN_EVERY_S = 2
"""Seconds from one line of progress to the next; each says how long it will still take."""


def run(options: argparse.Namespace) -> Path:
    """Run the comparison and return the folder of its results."""
    options.strategies = options.strategies or [*option_files("strategy")]
    options.losses = options.losses or ["nonsaturating"]
    if options.overrides is None:
        options.overrides = CASES["dcgan 64"]
    folder = options.output or Path("outputs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_compare_strategies"
    refuse_unwritable(folder / "table.md")
    rows: list[Row] = []
    for loss in options.losses:
        rows += compare(options.strategies, loss, options.overrides, options.repeats, options.iterations)
    text = f"{conditions(options, rows[0]['device'])}\n\n{markdown(rows)}"
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    write_text(folder / "table.csv", table.getvalue())
    with atomic_write(folder / "time.png") as file:
        plot(rows).savefig(file, dpi=120)
    write_text(folder / "table.md", text)  # the last one, as it says that the comparison is there
    print(text, f"\nWritten to {folder}", sep="\n")
    return folder


def compare(strategies: Sequence[str], loss: str, overrides: Sequence[str], turns: int, iterations: int) -> list[Row]:
    """Measure every strategy with one loss, lean and redundant, and the plain loops where they do the same."""
    settings = (*overrides, f"loss={loss}")
    contenders: dict[str, Contender] = {}
    costs: dict[str, Cost] = {}
    gan: GAN | None = None
    names = dict.fromkeys(["detach", *strategies])
    for name in tqdm(names, f"Counting operations, loss={loss}", unit="strategy", mininterval=SHOWN_EVERY_S):
        try:
            trainers = {f"{name}{how}": trainer_of(*settings, *settings_of(f"{name}{how}")) for how in (REDUNDANT, "")}
        except UserError as refusal:
            if name == "detach":
                raise
            tqdm.write(f"Without {name}: {refusal}")
            continue
        gan = gan or trainers[BASELINE].gan
        pair = {name: Contender.of(trainer) for name, trainer in trainers.items()}
        counted = {name: cost(contender, gan.prior.device) for name, contender in pair.items()}
        wasteful = len({each.gflop for each in counted.values()}) > 1  # else there are no redundant gradients
        for row_name in pair if wasteful else [name]:
            contenders[row_name], costs[row_name] = pair[row_name], counted[row_name]
    assert gan is not None
    if loss == "nonsaturating" and _is_plain(gan):
        for how, loop in {REDUNDANT: plain_loops.textbook, "": plain_loops.lean}.items():
            trainer = trainer_of(*settings)
            plain = Contender(loop(trainer.gan, images_of(trainer)), trainer.gan)
            of_plain = cost(plain, gan.prior.device)
            if of_plain.gflop == costs[f"detach{how}"].gflop:  # not with d_steps=2
                contenders[f"plain loop{how}"], costs[f"plain loop{how}"] = plain, of_plain
    total = turns * len(contenders)
    with tqdm(total=total, desc=f"Timing {len(contenders)} loops", unit="repeat", mininterval=SHOWN_EVERY_S) as progress:
        results = measured(
            contenders, costs, turns=turns, iterations=iterations, device=gan.prior.device, timed=progress.update
        )
    device = gan.prior.device.type
    baseline, size = results[BASELINE], gan.batch_size
    return [row(name, result, baseline, loss, size) | {"device": device} for name, result in results.items()]


def _is_plain(gan: GAN) -> bool:
    """Return whether the plain loops can train a GAN: it has no labels, packs, penalties or augmentation."""
    without = isinstance(gan.penalty, NoPenalty) and isinstance(gan.augment, NoAugmentation)
    return without and gan.pack == 1 and not gan.prior.classes


def row(name: str, measurement: Measured, baseline: Measured, loss: str, batch_size: int) -> Row:
    """Summarise the measurements of one contender."""
    ratio = measurement.over(baseline)
    return {
        "loss": loss,
        "strategy": name,
        "ratio": round(ratio.middle, 4),
        "ratio_low": round(ratio.low, 4),
        "ratio_high": round(ratio.high, 4),
        "iteration_ms": round(measurement.median_ms, 3),
        **{f"{phase}_ms": _phase_ms(measurement, phase) for phase in ("data", "d", "g")},
        "gflop": round(measurement.gflop, 3),
        "peak_mib": round(measurement.peak_mib, 2),
        "images_per_s": round(1000 * batch_size / measurement.median_ms, 1),
    }


def conditions(options: argparse.Namespace, device: str) -> str:
    """Return what was measured, on which machine, and when."""
    threads = torch.get_num_threads()
    return (
        f"Measured on {date.today()} on {machine(device)}, on {'1 thread' if threads == 1 else f'{threads} threads'}: medians "
        f"[{CONFIDENCE:.0%} confidence intervals] of {options.repeats} interleaved repeats of {options.iterations} iterations; "
        f"`{' '.join(options.overrides)}`. Ratios are times relative to `{BASELINE}`; "
        f"peak is {'what an iteration allocates' if device == 'cuda' else 'activations kept by autograd'}."
    )


def markdown(rows: Sequence[Row]) -> str:
    """Lay the rows out as a table."""
    lines = [
        "| loss | strategy | time | ms per iteration | D ms | G ms | Gflop | peak MiB | images/s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        ratio = f"**{r['ratio']:.3f}** [{r['ratio_low']:.3f}, {r['ratio_high']:.3f}]"
        figures = [r["iteration_ms"], r["d_ms"], r["g_ms"], r["gflop"], r["peak_mib"], r["images_per_s"]]
        lines.append(f"| {r['loss']} | {r['strategy']} | {ratio} | {' | '.join(str(figure) for figure in figures)} |")
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[Row]) -> Figure:
    """Draw the ratios with their intervals, one panel per loss."""
    losses = list(dict.fromkeys(r["loss"] for r in rows))
    tallest = max(sum(r["loss"] == loss for r in rows) for loss in losses)
    figure = Figure(figsize=(5.5 * len(losses), 1.2 + 0.3 * tallest), layout="constrained")
    for axes, loss in zip(figure.subplots(1, len(losses), squeeze=False)[0], losses, strict=True):
        shown = sorted((r for r in rows if r["loss"] == loss), key=lambda r: r["ratio"], reverse=True)
        ratios = {r["strategy"]: Interval(r["ratio_low"], r["ratio"], r["ratio_high"]) for r in shown}
        colors = [
            "0.6" if "plain" in r["strategy"] else "tab:orange" if "redundant" in r["strategy"] else "tab:blue" for r in shown
        ]
        bars(axes, ratios, f"time per iteration, over that of '{BASELINE}'", colors)
        axes.set(title=loss)
    return figure


def _phase_ms(measurement: Measured, phase: str) -> float | str:
    """Return the median over turns, or nothing where no phase was timed, as in plain loops."""
    turns = measurement.phases_ms
    return round(statistics.median(phases.get(phase, 0.0) for phases in turns), 3) if turns[0] else ""
