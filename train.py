"""Compose a configuration, build a run from it, and train: `python train.py --help` lists the choices."""

import os
import sys

if "GOMP_SPINCOUNT" not in os.environ:  # idle threads of OpenMP should sleep, not spin: see docs/benchmarks.md
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # which torch reads when it is imported, here and in workers

import hydra
from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def train(cfg: DictConfig) -> float | None:
    from ganexp.command_line import run  # imports torch, which --help and --cfg do not need

    return run(cfg)


if __name__ == "__main__":
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # let errors come here, where they become sentences
    try:
        if sys.argv[1:] == ["--version"]:
            from ganexp.provenance import versions

            sys.exit(print(versions()))
        if any(argument.startswith(("resume=", "sweep.resume=")) for argument in sys.argv[1:]):
            from ganexp.resuming import resumed

            sys.argv[1:] = resumed(sys.argv[1:])
        train()
    except KeyboardInterrupt:
        print("Interrupted; what was written is kept.", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        from ganexp.command_line import report

        sys.exit(report(error))
