"""Compose a configuration, build a run from it, and train: `python train.py --help` lists the choices."""

import os
import sys

if __name__ == "__main__":
    from ganexp.cli import interrupting, quiet

    interrupting.at_once()  # while torch is imported
    quiet.wait_quietly()

import hydra
from omegaconf import DictConfig

from ganexp.cli import errors, hydra_errors, resolvers

resolvers.register()


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def train(cfg: DictConfig) -> float | None:
    from ganexp.cli.run import run  # imports torch, which --help and --cfg do not need

    return run(cfg)


if __name__ == "__main__":
    if sys.argv[1:] == ["--version"]:
        from ganexp.logging.provenance import versions

        sys.exit(print(versions()))
    if any(argument.startswith(("resume=", "sweep.resume=")) for argument in sys.argv[1:]):
        from ganexp.cli.resuming import replace_command_line

        replace_command_line()
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # so that Hydra's errors come here
    try:
        hydra_errors.refuse_hyphens(sys.argv[1:])
        train()
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(errors.report(error))
