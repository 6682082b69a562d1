"""`ganexp info`: what a place is, as lines of a name and a value."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from ganexp.cli.commands.info.disk import disk, of_size, size
from ganexp.cli.pages import headings
from ganexp.cli.pages.citing import bibtex
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import SAVED, RunFolder
from ganexp.printable import printable
from ganexp.sampling.metadata import told_by
from ganexp.training import checkpoint

Lines = list[tuple[str, Any]]


def run(options: argparse.Namespace) -> None:
    """Print what a place is, or what lies on the disk."""
    lines = disk(options.outputs) if options.disk else about(options.place)
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print(f"{printable(name):<{width}}  {printable(str(value))}".rstrip())
    if not options.disk:
        print(f"\n{bibtex()}")


def about(place: Path) -> Lines:
    """Return what a place is.

    Raises:
        UserError: It is none of what ganexp writes.
    """
    if place.is_file():
        if place.suffix == ".pt":
            return _checkpoint(place)
        return [*told_by(place), ("size", of_size(size(place)))]
    if reading.is_saved(place):
        return _saved(place)
    runs = reading.find(place)
    if runs == [place]:
        return _run(place)
    if runs:
        states = Counter(reading.read(job).state for job in runs)
        counts = ", ".join(f"{count} {state}" for state, count in states.items())
        use = [("ranking and curves", f"ganexp report {place}"), ("figures", f"ganexp evaluate {place}")]
        return [("what", f"a sweep of {len(runs)} runs: {counts}"), ("size", of_size(size(place))), *use]
    raise UserError(f"{place} is no run, checkpoint, saved generator, exported file or sweep of ganexp: name one of these")


def _run(place: Path) -> Lines:
    recorded, folder = reading.read(place), RunFolder(place)
    settings = headings.listed([recorded]) if recorded.config else {}
    lines: Lines = [("what", f"a run, {recorded.state}"), ("name", place.resolve().name)]
    lines += [(key, value) for key, value in settings.items()]
    kept = [path for path in (*folder.numbered, folder.last, folder.best) if path.exists()]
    for path in kept:
        lines.append((path.name, of_size(size(path))))
    for problem in recorded.problems[:3]:
        lines.append(("problem", problem))
    lines.append(("size", of_size(size(place))))
    if not kept:
        return [*lines, ("weights", "none: the run keeps no checkpoint, so that only its rows and pictures are left")]
    state = checkpoint.load(kept[-1] if kept[-1] == folder.last else folder.last if folder.last in kept else kept[-1])
    return [*lines, *_of_state(state), *_use(place, state["config"])]


def _checkpoint(path: Path) -> Lines:
    state = checkpoint.load(path)
    size_ = ("size", of_size(size(path)))
    return [("what", "a checkpoint"), *_chosen(state["config"]), *_of_state(state), size_, *_use(path, state["config"])]


def _of_state(state: dict[str, Any]) -> Lines:
    config, shape = state["config"], state.get("shape")
    averaged = isinstance(config.get("average"), dict) and config["average"].get("name") != "none"
    weights = (
        "as trained and averaged; the average is taken, and --plain-weights takes the others" if averaged else "as trained"
    )
    lines: Lines = [("iteration", f"{state['run']['iteration']:,}"), ("weights", weights)]
    if state.get("source_shape"):
        lines.append(("in", f"sources {_shape(state['source_shape'])}, in [-1, 1]"))
    else:
        lines.append(("in", f"latents {_shape([config.get('latent_dim', '?')])}, {config.get('prior', '?')}"))
    if isinstance(shape, (list, tuple)):
        lines.append(("out", f"samples {_shape(shape)}" + (", in [-1, 1]" if len(shape) == 3 else "")))
    return [*lines, ("classes", state["classes"])] if state.get("classes") else lines


def _saved(place: Path) -> Lines:
    document = reading.read_document(place / SAVED[1])
    if not isinstance(document.get("settings"), dict):
        raise UserError(f"{place / SAVED[1]} does not describe a generator: get the folder again")
    settings, given = document["settings"], document.get("source_shape")
    lines: Lines = [("what", "a saved generator"), *_chosen(settings), ("iteration", document.get("iterations"))]
    lines.append(("in", f"sources {_shape(given)}, in [-1, 1]" if given else f"latents {_shape([settings.get('latent_dim')])}"))
    lines.append(("out", f"samples {_shape(document.get('shape', []))}"))
    return [*lines, ("size", of_size(size(place))), *_use(place, settings)]


def _chosen(config: dict[str, Any]) -> Lines:
    """Return the names of the options that tell most of a training."""
    named = ((group, config.get(group)) for group in ("dataset", "generator", "discriminator", "loss", "strategy", "optimizer"))
    return [(group, node["name"]) for group, node in named if isinstance(node, dict) and "name" in node]


def _use(place: Path, config: dict[str, Any]) -> Lines:
    dataset = config.get("dataset")
    lines: Lines = [("samples", f"ganexp sample {place}"), ("in Python", f'G = ganexp.load("{place}")')]
    return (
        [*lines, ("figures", f"ganexp evaluate {place}")]
        if isinstance(dataset, dict) and not reading.is_saved(place)
        else lines
    )


def _shape(sides: Any) -> str:
    return " × ".join(map(str, ["n", *sides])) if isinstance(sides, (list, tuple)) else "?"
