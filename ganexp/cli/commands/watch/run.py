"""`ganexp watch`: run a training script unchanged, watch its first iterations, and say what it does."""

import argparse
import contextlib
import json
import os
import runpy
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from ganexp.documents import atomic_write
from ganexp.strategies import Strategy
from ganexp.watching import WatchedLoop, watch
from ganexp.watching.events import Player

ALONE = 10
"""Steps of the only optimiser after which a script is stopped."""

WITHOUT_END = 100
"""Steps per iteration that is asked for, after which a script is stopped in which only one player moves."""


PATIENCE = 10
"""Times that a script may catch `Enough`, which a bare `except:` does, before the process ends."""


class Enough(BaseException):
    """The iterations have been watched. No `except Exception` of a script stops it."""


class Counter:
    """Ends a script when enough iterations are complete, or when there is one optimiser only, and so no game.

    `end` is called if the script catches what is raised to end it, and goes on.
    """

    def __init__(self, iterations: int, end: Callable[[], object]) -> None:
        self.iterations, self.end, self.caught = iterations, end, -1
        self.steps = 0
        self.report: WatchedLoop | None = None

    def __call__(self, player: Player) -> None:
        """Count a step that is about to be made."""
        assert self.report is not None
        self.steps += 1
        if self.report.turns >= self.iterations:
            self.enough()
        if self.steps > ALONE and self.report.optimizers == 1:
            self.enough(
                f"was stopped after {self.steps - 1} steps of the only optimiser: a GAN has two; if it pretrains a network "
                "before it makes another optimiser, put `with ganexp.watch():` around some iterations of both"
            )
        if self.steps > WITHOUT_END * self.iterations:
            self.enough(
                f"was stopped after {self.steps - 1} steps, with {self.report.turns} iterations complete: if it pretrains a "
                "network for longer, ask for more --iterations, or put `with ganexp.watch():` around some iterations of both"
            )

    def enough(self, why: str = "") -> None:
        """End the script."""
        self.caught += 1
        if self.caught > PATIENCE:
            self.end()
        raise Enough(why)


def run(options: argparse.Namespace) -> WatchedLoop:
    """Run the script, print the report, and return it."""

    def end() -> None:
        report.__exit__()
        with contextlib.redirect_stdout(sys.__stdout__):
            _print(report, options)
        os._exit(0)  # whatever is raised, the script catches it

    counter = Counter(options.iterations, end)
    report = counter.report = watch(strategies=of_plugins(), on_step=counter, nothing_follows=True)
    failure: BaseException | None = None
    stopped = ""
    before = sys.argv[:], sys.path[:]
    options.picture = options.picture and options.picture.absolute()  # the script may change the folder
    sys.argv = [str(options.script), *options.words]
    sys.path.insert(0, str(options.script.resolve().parent))
    try:
        with contextlib.redirect_stdout(sys.stderr), report:
            runpy.run_path(str(options.script.absolute()), run_name="__main__")
    except Enough as enough:
        stopped = str(enough)
    except SystemExit as end_of_script:
        failure = None if end_of_script.code in (None, 0) else end_of_script
    except BaseException as error:  # Ctrl-C, asyncio's and the script's own, too: the report says what was seen until then
        failure = error
        traceback.print_exception(error)
    finally:
        sys.argv, sys.path[:] = before
    _print(report, options)
    if failure is not None:
        said = [type(failure).__name__, *str(failure).splitlines()[:1]]
        sys.exit(f"Error: {options.script} ended with {': '.join(said)}")
    if not report.iterations and not report.faults:
        sys.exit(f"Error: {options.script} {stopped}." if stopped else f"Error: {options.script}: {report.identified.why}.")
    if stopped:
        print(f"{options.script} {stopped}.", file=sys.stderr)
    return report


def _print(report: WatchedLoop, options: argparse.Namespace) -> None:
    print(json.dumps(report.json(), indent=2) if options.json else report.text(options.verbose), flush=True)
    if options.picture and report.recorded is not None:
        from ganexp.cli.commands.watch.lives import lives  # needs matplotlib, which no other part of the report does

        options.picture.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(options.picture) as file:
            lives(report).savefig(file, dpi=120)


def of_plugins() -> dict[str, Strategy]:
    """Return the strategies of installed plug-ins, with the settings of their files."""
    if not entry_points(group="ganexp.plugins"):  # and nothing that configurations need is imported
        return {}
    from omegaconf import OmegaConf

    from ganexp.config.assemble import plain_strategy_of
    from ganexp.config.choices import choose
    from ganexp.config.defaults import option_files
    from ganexp.config.plugins import conf_folders

    folders = conf_folders()
    files = option_files("strategy", folders) if folders else {}
    nodes: dict[str, Any] = {name: OmegaConf.to_container(OmegaConf.load(path)) for name, path in files.items()}
    return {name: plain_strategy_of(choose("strategy", node)) for name, node in nodes.items()}
