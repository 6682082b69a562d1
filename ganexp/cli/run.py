"""From a composed configuration to a trained run: what Hydra calls, once for a run and once for each job of a sweep."""

import logging
import signal
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
from ganexp.distributed.group import DistributedProcesses, FailedElsewhere
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
    _run_alone(cfg, hydra)
    return None


def _run_alone(cfg: DictConfig, hydra: Any) -> None:
    """Train one run; its errors also go into its own log. The configuration has been checked by `hooks`."""
    logging.raiseExceptions = False  # for a train.log on a full disk; the console says the same
    folder = short(Path(hydra.run.dir).absolute())  # Hydra's own name for it may be interpolated again
    for message in state.messages:
        logging.getLogger(message.name).handle(message)
    if state.processes:
        _run_together(cfg, hydra, folder, state.processes)
        return
    with Stopping() as stopping:
        try:
            trainer = build(cfg, folder, checkpoint=cfg.resume, stopping=stopping, trust=cfg.trust, obtained=state.obtained)
            options, _ = config_options(sys.argv[1:])
            record_command(folder, typed_overrides(hydra), options)
            point_latest_at(folder)
            summary = trainer.fit()
        except Exception as error:
            log_failure(error)
            raise SystemExit(1) from None
        log.info("%s", epilogue(summary))
    if stopping.received and summary["state"] == "preempted":
        log.info("%s", stopped_by(stopping.received, f"resume={folder}"))
        raise SystemExit(128 + stopping.received)


def _run_together(cfg: DictConfig, hydra: Any, folder: Path, processes: DistributedProcesses) -> None:
    """Train one run in several processes. One of them reports how it ends; a failure in one ends all.

    As soon as one process has ended, torchrun ends the others by a signal, so everything is reported before that.
    """
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
            signals = [number for number in processes.tell(stopping.received) if number is not None]
        except Exception as error:
            silent = isinstance(error, FailedElsewhere) or not processes.speaks()
            if not silent:
                log_failure(error)
        else:
            stopped = bool(signals) and summary["state"] == "preempted"
            if processes.writes:
                log.info("%s", epilogue(summary))
            if processes.writes and stopped:
                log.info("%s", stopped_by(signal.Signals(signals[0]), f"resume={folder}"))
            processes.close()
            if stopped:
                raise SystemExit(128 + signals[0])
            return
    if silent:
        exit_silently()
    raise SystemExit(1)
