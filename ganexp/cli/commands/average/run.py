"""`ganexp average`: average a run's generator with a width that is chosen after training."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from ganexp.cli.commands.average import average_of, iteration_of
from ganexp.config.choices import choose
from ganexp.config.loading import load
from ganexp.config.parsing import parse
from ganexp.documents import write_state
from ganexp.facts import UserError
from ganexp.training import CheckpointError, PowerAverage, checkpoint
from ganexp.training.averages import Snapshot, post_hoc, shares_of
from ganexp.training.checkpoint import description, refuse_unlike, stamped

CLOSE = 0.05
"""Relative distance of two averages' weights over time above which a run should keep more checkpoints."""


def run(options: argparse.Namespace) -> list[Path]:
    """Write the averages as checkpoints, and return their paths."""
    return [averaged(width, options) for width in options.width]


def averaged(width: float, options: argparse.Namespace) -> Path:
    """Write the average of a given width as a checkpoint of the generator alone, and return its path."""
    paths, iteration, place = average_of(options, width)
    last, network = checkpoint.load(paths[-1]), load(paths[-1], trust=options.trust).network
    snapshots = [snapshot for path in paths for snapshot in _snapshots(path, network)]
    _, off = shares_of([(snapshot.iteration, snapshot.gamma) for snapshot in snapshots], iteration, width)
    buffers = last["run"]["step"]["average"]["generator"]  # from the last iteration, as in the run's own average
    weights = buffers | post_hoc(snapshots, iteration, width)
    settings = {**last["config"], "average": {**last["config"]["average"], "width": width, "beside": []}}
    settings["evaluation"] = {**last["config"].get("evaluation", {}), "of": "average"}  # the file holds nothing else
    run = {"iteration": iteration, "step": {"average": {"generator": weights}}}
    described = [last.get(key, ()) for key in ("class_names", "source_shape", "source_ranges")]
    write_state(place, stamped(run, description(settings, last["shape"], last["classes"], *described)))
    more = "" if off < CLOSE else "; more checkpoints, or another width in average.beside, would bring it closer"
    print(f"Written to {place}: its averaging profile is {100 * off:.2g} % off that of width {width:g}{more}")
    return place


def _snapshots(path: Path, network: nn.Module) -> Iterator[Snapshot]:
    """Yield the averages of a network in a checkpoint, restricted to parameters."""
    state = checkpoint.load(path)
    choice = choose("average", parse(state["config"]).average, ())
    if choice.target is not PowerAverage:
        raise UserError(f"{path} has no power-function average: train with average=power")
    iteration = state["run"]["iteration"]
    if not 0 < iteration == iteration_of(path):
        raise CheckpointError(f"{path} was written at iteration {iteration}: rename it to iteration_{iteration:09d}.pt")
    average = PowerAverage(network, **{**choice.settings, "of": "generator"})
    step = state["run"].get("step")
    stored: Any = step.get("average") if isinstance(step, dict) else None
    if isinstance(stored, dict):
        stored = {key: value for key, value in stored.items() if key != "discriminator"}
    try:
        refuse_unlike("average", average.state_dict(), stored)
    except ValueError as error:
        raise CheckpointError(f"{path} does not fit its own configuration ({error})") from None
    average.load_state_dict(stored)
    for kept in (average, *average.beside.values()):
        yield Snapshot(iteration, kept.gamma, dict(kept.generator.named_parameters()))
