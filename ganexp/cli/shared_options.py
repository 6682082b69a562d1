"""What commands share: options, the types of their values, and refusals, without torch."""

import argparse
import math
import re
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ganexp.documents import refuse_links_out, refuse_outside
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import RunFolder

OPTIONS: dict[str, dict[str, Any]] = {
    "--trust": {
        "action": "extend",
        "nargs": "*",
        "default": [],
        "help": "modules, besides ganexp's own, whose code the run's configuration may import and run; none by default",
    },
    "--plain-weights": {"action": "store_true", "help": "weights as trained; their average by default, if the run has one"},
    "--device": {"default": "cpu", "help": "cpu, cuda or cuda:N"},
    "--overwrite": {"action": "store_true", "help": "replace what is there"},
}
"""The options that are the same in every command that has them."""


def add(parser: argparse._ActionsContainer, *names: str) -> None:
    """Declare some of `OPTIONS`, at this place of the help: parents of argparse would put them before a command's own."""
    for name in names:
        parser.add_argument(name, **OPTIONS[name])


def place(typed: str) -> Path:
    """Read a run folder or a checkpoint; `run=…` is the same, as for training."""
    return Path(typed.removeprefix("run="))


def place_or_repository(typed: str) -> Path | str:
    """Read a place, or a repository of the hub."""
    name = typed.removeprefix("run=")
    return name if name.startswith("hf://") else Path(name)


def positive(typed: str) -> int:
    """Read an integer of at least 1."""
    if (number := integer(typed)) < 1:
        raise argparse.ArgumentTypeError(f"should be a number of at least 1, not {typed}")
    return number


def integer(typed: str) -> int:
    """Read an integer that 64 bits hold."""
    if not re.fullmatch(r"[+-]?\d{1,18}", typed):
        raise argparse.ArgumentTypeError(f"should be an integer of at most 18 digits, not {typed}")
    return int(typed)


def finite(typed: str) -> float:
    """Read a finite number."""
    try:
        number = float(typed)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"should be a finite number, not {typed}")
    return number


def rate(typed: str) -> float:
    """Read a number above 0."""
    if (number := finite(typed)) <= 0:
        raise argparse.ArgumentTypeError(f"should be a number above 0, not {typed}")
    return number


def defaults_of(add_arguments: Callable[[ArgumentParser], None], *words: str) -> dict[str, Any]:
    """Return the values of a command's options where only these words are typed."""
    parser = ArgumentParser()
    add_arguments(parser)
    return vars(parser.parse_args(words))


def refuse_missing(place: Path | str) -> None:
    """Refuse a place that is not there; repositories of the hub are asked for later."""
    if isinstance(place, Path) and not place.exists():
        raise UserError(f"{place} does not exist: name a run folder below outputs/, or a checkpoint")


def refuse_without_checkpoint(place: Path | str) -> None:
    """Refuse a place that holds neither a checkpoint nor a saved generator."""
    refuse_missing(place)
    if isinstance(place, Path) and not reading.is_saved(place) and not reading.checkpoint_at(place).exists():
        raise UserError(f"{place} has no checkpoint: name a run that has, its file, or a saved generator")


def refuse_label(place: Path | str, label: str | None) -> None:
    """Refuse a class of a run without classes; whether others have this class is asked later."""
    if (
        label is not None
        and isinstance(place, Path)
        and reading.read_document(RunFolder(place).config).get("conditional") is False
    ):
        raise UserError(f"--label chooses a class, and {place} has none: leave it out, or train with conditional=true")


def refuse_device(device: str, others: str = "cpu") -> None:
    """Refuse what is no GPU and none of the other devices."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device) and device not in others.split(", "):
        raise UserError(f"--device should be {others}, cuda or cuda:N, not {device}")


def refuse_absent(device: str) -> None:
    """Refuse a GPU that this machine does not have; this imports torch."""
    import torch

    if device != "cpu" and int(device[5:] or 0) >= torch.cuda.device_count():
        raise UserError(f"there is no GPU for --device {device}")


def refuse_unknown(option: str, names: Sequence[str], group: str) -> None:
    """Refuse names of which a group has no file."""
    from ganexp.config.defaults import option_files  # which a command for other people's scripts need not have

    options = option_files(group)
    for name in names:
        if name not in options:
            raise UserError(f"{option} {name} is unknown: choose from {', '.join(sorted(options))}")


def refuse_without(package: str, extra: str = "") -> None:
    """Refuse a command whose package is not installed: one of an extra, or one that `pip install --no-deps` left out."""
    if find_spec(package) is None:
        name = package.replace("_", "-")
        remedy = f"-e '.[{extra}]'" if extra else name
        raise UserError(f"this needs {name}, which is not installed: pip install {remedy}")


def inside(run: Path, name: str) -> Path:
    """Return a folder for results in a run folder; refuse a link in it that leads out of the run folder."""
    beside = run if run.is_dir() else RunFolder.beside(run)
    refuse_outside(beside / name, beside)
    refuse_links_out(beside / name)
    return beside / name
