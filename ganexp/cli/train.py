"""`ganexp train`, the same as `python train.py`: compose a configuration, build a run from it, and train."""

import os
import sys
from typing import TYPE_CHECKING

from ganexp.cli import interrupting, quiet

if TYPE_CHECKING:
    from omegaconf import DictConfig


def train(cfg: "DictConfig") -> float | None:
    """Train as a configuration says: what Hydra calls, once for each job."""
    from ganexp.cli import composing
    from ganexp.cli.run import run  # imports torch, which --help and --cfg do not need

    composing.register()  # again: a job of a sweep may have a process of its own
    return run(cfg)


def main() -> None:
    """Let Hydra read the command line, and train."""
    if not {"-h", "--help"}.isdisjoint(sys.argv[1:]):
        from ganexp.cli.help import print_help

        sys.exit(print_help(sys.argv[1:]))
    interrupting.at_once()  # while torch is imported
    quiet.wait_quietly()
    import hydra

    from ganexp.cli import composing, errors, hydra_errors
    from ganexp.cli.recorded import config_options
    from ganexp.config.defaults import conf_folder

    if sys.argv[1:] == ["--version"]:
        from ganexp.logging.provenance import versions

        sys.exit(print(versions()))
    if any(argument.startswith(("resume=", "sweep.resume=")) for argument in sys.argv[1:]):
        from ganexp.cli.resuming import expand_resume

        with errors.exiting_with_a_sentence():
            sys.argv[1:] = expand_resume(sys.argv[1:])
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # so that Hydra's errors are raised here
    try:
        hydra_errors.refuse_hyphens(sys.argv[1:])
        composing.register()
        options, rest = config_options(sys.argv[1:])
        sys.argv[1:] = [*options, *rest]  # with absolute paths: Hydra would look below this module
        hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name="train")(train)()
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(errors.report(error))
