"""`ganexp train`, the same as `python train.py`: one run, a sweep, or one of Hydra's views of a configuration."""

import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence

from ganexp.cli import process

VIEWS = ("--cfg", "-c", "--info", "-i", "--shell-completion", "-sc", "--hydra-help")
"""Hydra's options that show a view of the configuration and run nothing."""


def main() -> None:
    """Execute the command line."""
    words = sys.argv[1:]
    if not {"-h", "--help"}.isdisjoint(words):
        from ganexp.cli.help import print_help

        sys.exit(print_help(words))
    process.begin()  # while torch is imported
    if words == ["--version"]:
        sys.exit(print(versions()))
    with process.ending():
        train(words)


def versions() -> str:
    """Return the line that `--version` prints; packages are asked without being imported."""
    version_of = {
        name: next((distribution.version for distribution in importlib.metadata.distributions(name=name)), "(not installed)")
        for name in ("ganexp", "torch")
    }
    return ", ".join([*(f"{name} {version}" for name, version in version_of.items()), f"Python {platform.python_version()}"])


def train(words: Sequence[str]) -> None:
    """Run, sweep or show what the words of a command line ask for."""
    if any(word.partition("=")[0] in VIEWS for word in words):
        show(words)
        return
    from ganexp.cli.line import read_line

    line = read_line(words)
    if line.sweeps or line.value_of("sweep.resume"):
        if os.environ.get("RANK", "0") in ("0", ""):
            print("Preparing a sweep.", flush=True)  # at once, since importing Hydra takes seconds on a busy machine
        from ganexp.cli.sweep import sweep

        sweep(line)
    else:
        from ganexp.cli.run import run

        run(line)


def show(words: Sequence[str]) -> None:
    """Let Hydra show the requested view."""
    import argparse

    import hydra

    import ganexp.cli.composing  # noqa: F401  # which Hydra then composes with
    from ganexp.cli.hydra_errors import composing
    from ganexp.cli.hydra_internal import VERSION_BASE
    from ganexp.cli.line import Line, Parser
    from ganexp.facts import UserError

    if any(word.startswith("resume=") for word in words):
        raise UserError("resume= takes a run's own configuration, which is in its config.json: leave it out, or --cfg.")
    parser = Parser()
    parser.add_argument("-c", "--cfg")  # else argparse takes -c for the beginning of -cd
    options, rest = parser.parse_known_args(list(words))
    line = Line((), further=options.config_dir, conf=options.config_path, name=options.config_name)
    sys.argv[1:] = [*(["--cfg", options.cfg] if options.cfg else []), *line.options, *rest]
    argparse.ArgumentParser._check_help = lambda *_: None  # type: ignore[attr-defined]  # Python 3.14's; one of Hydra 1.3 is no string
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # so that Hydra's errors are raised here
    with composing():
        hydra.main(**VERSION_BASE, config_path=str(line.conf), config_name=line.name)(print)()
