"""How long each recipe should take on one GPU: its operations, counted on torch's meta device, over an assumed speed."""

import itertools
from collections.abc import Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from benchmarks.section import Section
from ganexp import compose
from ganexp.batch import Batch
from ganexp.cli.commands.pages.markdown import table
from ganexp.config.assemble import gan_of, networks_of
from ganexp.config.check import check

RECIPES = (
    "sngan",
    "sngan_mimicry",
    "sngan_projection",
    "biggan",
    "stylegan2_ada",
    "r3gan",
    "lookahead_cifar10",
    "extra_adam",
    "unrolled_stacked",
    "pacdcgan",
)
META = torch.device("meta")
ROUND = 16
"""Iterations that are counted: lazy penalties have their turn once in as many, or more often."""
MOST = 64
"""Samples of a batch that are counted, so that this machine's memory refuses no recipe; operations grow with the batch."""


class Everywhere(ModuleTracker):
    """Takes no look at modules, since the counter's own fails on spectral norm; operations are not told apart by module."""

    def __enter__(self) -> "Everywhere":
        return self

    def __exit__(self, *exception: object) -> None: ...


def work_of(name: str) -> tuple[float, int]:
    """Return the operations of an iteration of `experiment=name`, penalties included, and how many it has."""
    cfg = compose(f"experiment={name}", "logger=[]", "device=cpu")
    share = max(1, cfg.batch_size // MOST)
    cfg.batch_size //= share
    cfg.g_batch = cfg.g_batch and cfg.g_batch // share
    plan = check(cfg)
    config = plan.config
    with META:
        networks = networks_of(plan.choices, plan.shape, plan.classes)
    frequencies = [1.0] * plan.classes or None
    gan = gan_of(plan.choices, plan.parts, *networks, device=META, dtype=torch.float32, frequencies=frequencies)
    labels = (torch.zeros(config.batch_size, dtype=torch.long, device=META),) if plan.classes else ()
    x = Batch(torch.empty(config.batch_size, *plan.shape, device=META), labels)
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = Everywhere()
    with counter:
        for _ in range(ROUND):
            plan.parts.strategy(gan, itertools.repeat(gan.packed(x)), d_steps=config.d_steps, g_steps=config.g_steps)
            gan.finish_iteration()
    return share * counter.get_total_flops() / ROUND, config.iterations


def hours(flops: float, names: Sequence[str] = RECIPES) -> Section:
    """Tabulate them.

    Args:
        flops: Operations per second that a GPU sustains in a recipe's networks: assumed, or as the part `gpu` measures it.
        names: The recipes.
    """
    rows = []
    for name in names:
        work, iterations = work_of(name)
        told = {"recipe": name, "iterations": f"{iterations:,}", "Gflop per iteration": work / 1e9}
        rows.append(told | {"hours": work * iterations / flops / 3600})
    return Section("How long recipes take", f"Computed, not measured, for {flops / 1e12:.3g} Tflop/s.\n\n" + table(rows))
