"""From a composed configuration to a trained run: what Hydra calls, once for a run and once for each job of a sweep."""

import logging
import sys
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from ganexp.cli import interrupting
from ganexp.cli.doubtful import doubtful
from ganexp.cli.ending import epilogue, stopped_by
from ganexp.cli.failures import log_failure
from ganexp.cli.folders import point_latest_at
from ganexp.cli.jobs import run_job
from ganexp.cli.launching import exit_silently
from ganexp.cli.naming import short, typed_overrides
from ganexp.cli.recorded import config_options, record_command
from ganexp.cli.state import state
from ganexp.config.build import build
from ganexp.distributed.group import FailedElsewhere
from ganexp.distributed.processes import Processes
from ganexp.training import Stopping

log = logging.getLogger(__name__)


def run(cfg: DictConfig) -> float | None:
    """Build and train a run or a job, and print where its results are.

    Returns:
        In a sweep, the last value of `sweep.metric`; None if there is none.
    """
    interrupting.by_exception()
    hydra = HydraConfig.get()
    for sentence in doubtful(hydra):
        log.warning("%s", sentence)
    if hydra.mode == RunMode.MULTIRUN:
        return run_job(cfg, hydra)
    _train(cfg, hydra)
    return None


def _train(cfg: DictConfig, hydra: Any) -> None:
    """Train one run, in one process or several; its errors also go into its own log. `hooks` has checked the configuration.

    Of several processes, one reports how the run ends, and a failure in one ends all. As soon as one has ended, torchrun ends
    the others by a signal, so everything is reported before that.
    """
    logging.raiseExceptions = False  # for a train.log on a full disk; the console says the same
    folder = short(Path(hydra.run.dir).absolute())  # Hydra's own name for it may be interpolated again
    for message in state.messages:
        logging.getLogger(message.name).handle(message)
    processes = state.processes or Processes()
    with Stopping() as stopping:
        try:
            trainer = processes.together(
                lambda: build(
                    cfg,
                    folder,
                    checkpoint=cfg.resume,
                    stopping=stopping,
                    trust=cfg.trust,
                    processes=processes,
                    obtained=state.obtained,
                )
            )
            if processes.writes:
                options, _ = config_options(sys.argv[1:])
                record_command(folder, typed_overrides(hydra), options)
                point_latest_at(folder)
            summary = trainer.fit()
            received = next(filter(None, processes.tell(stopping.received)), None)
        except Exception as error:
            silent = isinstance(error, FailedElsewhere) or not processes.speaks()
            if not silent:
                log_failure(error)
        else:
            stopped = received if summary["state"] == "preempted" else None
            if processes.writes:
                log.info("%s", epilogue(summary))
                if stopped:
                    log.info("%s", stopped_by(stopped, f"resume={folder}"))
            processes.close()
            if stopped:
                raise SystemExit(128 + stopped)
            return
    if silent:
        exit_silently()
    raise SystemExit(1)
