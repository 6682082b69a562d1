"""`ganexp average`: average a run's generator with a width that is chosen after training."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from ganexp.config.loading import load
from ganexp.config.parsing import parse
from ganexp.config.schema import ConfigError
from ganexp.config.targets import target
from ganexp.documents import write_state
from ganexp.logging.layout import RunFolder
from ganexp.training import PowerAverage, checkpoint
from ganexp.training.averages import Snapshot, gamma_of, post_hoc, shares_of
from ganexp.training.checkpoint import State, stamped

CLOSE = 0.05
"""Relative distance of two averages' weights over time above which a run should keep more checkpoints."""

WIDEST = 0.28
"""Upper bound of widths, below the width of the uniform average, as for `average.width`."""


def main(options: argparse.Namespace) -> list[Path]:
    """Make the averages, and return their files."""
    for width in options.width:
        if not 0 < width < WIDEST:
            raise ConfigError(f"--width should be above 0 and below {WIDEST:g}, not {width:g}")
    return [averaged(RunFolder(options.run), width, options) for width in options.width]


def averaged(folder: RunFolder, width: float, options: argparse.Namespace) -> Path:
    """Write the average of a given width as a checkpoint of the generator alone, and return its path."""
    paths = [one for one in folder.numbered if options.iteration is None or _iteration(one) <= options.iteration]
    if not paths:
        raise ConfigError(f"{folder.path} has no checkpoint up to there: one of each iteration is kept by keep_checkpoints=…")
    iteration = options.iteration or _iteration(paths[-1])
    if iteration > (end := _iteration(folder.numbered[-1])):
        raise ConfigError(f"--iteration={iteration} lies beyond the run's last checkpoint, at {end}: lower it")
    place = folder.averages / f"width_{width:g}_iteration_{iteration:09d}.pt"
    if place.exists() and not options.overwrite:
        raise ConfigError(f"{place} is there already: add --overwrite to replace it")
    last = checkpoint.load(paths[-1])
    trained = {name for name, _ in load(paths[-1], trust=options.trust).network.named_parameters()}
    snapshots = [one for path in paths for one in _snapshots(path, trained)]
    _, off = shares_of([(one.iteration, one.gamma) for one in snapshots], iteration, width)
    buffers = last["run"]["step"]["average"]["generator"]  # from the last iteration, as in the run's own average
    weights = buffers | post_hoc(snapshots, iteration, width)
    settings = {**last["config"], "average": {**last["config"]["average"], "width": width, "beside": []}}
    settings["evaluation"] = {**last["config"].get("evaluation", {}), "of": "average"}  # the file holds nothing else
    run = {"iteration": iteration, "step": {"average": {"generator": weights}}}
    write_state(place, stamped(run, settings, last["shape"], last["classes"]))
    more = "" if off < CLOSE else "; more checkpoints, or another width in average.beside, would bring it closer"
    print(f"Written to {place}: {100 * off:.2g} % off the weights over time of width {width:g}{more}")
    return place


def _snapshots(path: Path, trained: set[str]) -> Iterator[Snapshot]:
    """Yield the averages in a checkpoint, restricted to parameters."""
    state = checkpoint.load(path)
    node = parse(state["config"]).average
    if target(node, "average", ()) is not PowerAverage:
        raise ConfigError(f"{path} has no power-function average: train with average=power")
    average: State = state["run"]["step"]["average"]
    kept = {float(node["width"]): average, **{float(width): one for width, one in average.get("beside", {}).items()}}
    for width, one in kept.items():
        weights: dict[str, Tensor] = {name: one["generator"][name] for name in trained}
        yield Snapshot(state["run"]["iteration"], gamma_of(width), weights)


def _iteration(path: Path) -> int:
    return int(path.stem.removeprefix("iteration_"))
