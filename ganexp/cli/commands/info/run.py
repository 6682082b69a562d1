"""`ganexp info`: what a place is, as lines of a name and a value."""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

from ganexp.cli.commands.info.disk import disk, of_size, size
from ganexp.cli.pages import headings
from ganexp.cli.pages.citing import bibtex
from ganexp.config.schema import GROUPS, LISTS
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import SAVED, RunFolder
from ganexp.logging.reading import RecordedRun
from ganexp.printable import printable
from ganexp.sampling.card import parts
from ganexp.sampling.metadata import lines_of, read
from ganexp.training import checkpoint

Lines = list[tuple[str, Any]]


def run(options: argparse.Namespace) -> None:
    """Print what a place is, or what lies on the disk."""
    lines, entries = (disk(options.outputs), "") if options.disk else about(options.place)
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print(f"{printable(name):<{width}}  {printable(str(value))}".rstrip())
    if entries:
        print(f"\n{entries}")


def about(place: Path) -> tuple[Lines, str]:
    """Return what a place is, and what is cited by whoever uses it.

    Raises:
        UserError: It is none of what ganexp writes.
    """
    if place.is_file() and place.suffix == ".pt":
        state = checkpoint.load(place)
        return _checkpoint(place, state), bibtex([state["config"]])
    if place.is_file():
        metadata = read(place)
        return [*lines_of(metadata), ("size", of_size(size(place)))], bibtex([_chosen(metadata)])
    if reading.is_saved(place):
        document = reading.read_document(place / SAVED[1])
        if not isinstance(document.get("settings"), dict):
            raise UserError(f"{place / SAVED[1]} does not describe a generator: get the folder again")
        return _saved(place, document), bibtex([document["settings"]])
    runs = [reading.read(folder) for folder in reading.find(place)]
    entries = bibtex([run.config for run in runs], [run.folder for run in runs])
    if [run.folder for run in runs] == [place]:
        return _run(runs[0]), entries
    if runs:
        counts = ", ".join(f"{count} {state}" for state, count in Counter(run.state for run in runs).items())
        use = [("ranking and curves", f"ganexp report {place}"), ("figures", f"ganexp evaluate {place}")]
        return [("what", f"a sweep of {len(runs)} runs: {counts}"), ("size", of_size(size(place))), *use], entries
    raise UserError(f"{place} is no run, checkpoint, saved generator, exported file or sweep of ganexp: name one of these")


def _run(recorded: RecordedRun) -> Lines:
    place, folder = recorded.folder, RunFolder(recorded.folder)
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


def _checkpoint(path: Path, state: dict[str, Any]) -> Lines:
    size_ = ("size", of_size(size(path)))
    return [("what", "a checkpoint"), *parts(state["config"]).items(), *_of_state(state), size_, *_use(path, state["config"])]


def _of_state(state: dict[str, Any]) -> Lines:
    config = state["config"]
    averaged = isinstance(config.get("average"), dict) and config["average"].get("name") != "none"
    weights = (
        "as trained and averaged; the average is taken, and --plain-weights takes the others" if averaged else "as trained"
    )
    return [("iteration", f"{state['run']['iteration']:,}"), ("weights", weights), *_shapes(config, state)]


def _saved(place: Path, document: dict[str, Any]) -> Lines:
    settings = document["settings"]
    lines: Lines = [("what", "a saved generator"), *parts(settings).items(), ("iteration", document.get("iterations"))]
    if document.get("which"):
        lines.append(("weights", document["which"]))
    return [*lines, *_shapes(settings, document), ("size", of_size(size(place))), *_use(place, settings)]


def _chosen(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the parts that an exported file names as a configuration has them."""
    config: dict[str, Any] = {group: {"name": metadata[group]} for group in GROUPS if group in metadata}
    members = {group: str(metadata[group]).split(", ") for group in LISTS if group in metadata}
    return config | {group: {name: {} for name in names} for group, names in members.items()}


def _shapes(config: dict[str, Any], described: dict[str, Any]) -> Lines:
    """Return what a generator takes and makes, of a configuration and what is stored beside it."""
    given, shape = described.get("source_shape"), described.get("shape")
    if given:
        lines: Lines = [("in", f"sources {_shape(given)}, in [-1, 1]")]
    else:
        lines = [("in", f"latents {_shape([config.get('latent_dim', '?')])}, {config.get('prior', '?')}")]
    if isinstance(shape, (list, tuple)):
        lines.append(("out", f"samples {_shape(shape)}" + (", in [-1, 1]" if len(shape) == 3 else "")))
    return [*lines, ("classes", described["classes"])] if described.get("classes") else lines


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
