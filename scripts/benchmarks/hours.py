"""The estimated time of each recipe on one GPU: its operations, counted on torch's meta device, at an assumed speed."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from benchmarks.on_meta import on_meta
from benchmarks.section import Section
from ganexp import compose
from ganexp.config.check import check
from measuring.markdown import table

RECIPES = Path(__file__).resolve().parents[2] / "conf" / "experiment"
LAUNCHES = 0.002
"""Seconds; an iteration whose operations take less waits for their launches instead."""
MOST = 64
"""How many samples of a batch are counted, so that every recipe fits this machine's memory; operations grow with the batch."""


class Everywhere(ModuleTracker):
    """Ignores modules, since the counter's own tracker fails on spectral norm; operations are not told apart by module."""

    def __enter__(self) -> "Everywhere":
        return self

    def __exit__(self, *exception: object) -> None: ...


def work_of(name: str) -> tuple[float, int]:
    """Return the operations of an iteration of `experiment=name`, penalties included, and how many iterations it has."""
    cfg = compose(f"experiment={name}", "logger=[]", "device=cpu")
    share = max(1, cfg.batch_size // MOST)
    cfg.batch_size //= share
    cfg.g_batch = cfg.g_batch and cfg.g_batch // share
    plan = check(cfg)
    gan, iterate = on_meta(plan)
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = Everywhere()
    turn = math.lcm(*(penalty["every"] for penalty in plan.config.penalty.values()))  # whole periods of every lazy penalty
    with counter:
        for _ in range(turn):
            iterate()
            gan.finish_iteration()
    return share * counter.get_total_flops() / turn, plan.config.iterations


def recipes() -> dict[str, str]:
    """Return what was published with each recipe, by its name: the line `# Published: …` of its file."""
    told = {
        path.stem: re.search(r"^# Published: (.*)\.$", path.read_text(), re.MULTILINE)
        for path in sorted(RECIPES.glob("*.yaml"))
    }
    return {name: found[1] for name, found in told.items() if found}


def estimates(flops: float) -> Iterator[tuple[str, str, str, str]]:
    """Yield for each recipe its name, how many iterations it has, the Gflop of one, and the hours of all.

    Args:
        flops: Operations per second that a GPU sustains in a recipe's networks: assumed, or measured by the part `gpu`.
    """
    for name in recipes():
        work, iterations = work_of(name)
        hours = work * iterations / flops / 3600
        told = "launches" if work / flops < LAUNCHES else f"{hours:.0f}" if hours > 10 else f"{hours:.1f}"
        yield name, f"{iterations:,}", f"{work / 1e9:,.0f}", told


def hours(flops: float) -> Section:
    """Tabulate the estimates."""
    rows = [dict(zip(("recipe", "iterations", "Gflop each", "hours"), row, strict=True)) for row in estimates(flops)]
    return Section("How long recipes take", f"Computed, not measured, for {flops / 1e12:.3g} Tflop/s.\n\n" + table(rows))
