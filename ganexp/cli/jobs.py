"""One job of a sweep. If it fails, the sweep goes on with the other jobs.

Hydra's sweeper stops at the first job that raises, so a job does not raise: `summary.json` says how it ended.
"""

import functools
import gc
import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from ganexp.cli import process
from ganexp.cli.composing import as_hydra_writes, as_written, doubts, values_of
from ganexp.cli.ending import forecast, outcome
from ganexp.cli.failures import log_failure, meaning, sentence
from ganexp.cli.folders import point_latest_at, write_texts
from ganexp.cli.log import Log
from ganexp.cli.naming import short, typed_overrides
from ganexp.cli.sweeping import Results, Sweep, stopping
from ganexp.cli.sweeping.sharing import share_of_the_machine
from ganexp.config.build import trainer_of
from ganexp.config.check import check
from ganexp.config.resume import Checkpoint
from ganexp.facts import UserError
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import lock, unlock
from ganexp.logging.summary import amend_summary, read_summary
from ganexp.printable import printable
from ganexp.training.checkpoint import CheckpointError, load

log = logging.getLogger(__name__)
frozen = functools.cache(gc.freeze)
"""Leaves what has been imported out of all later collections, which then take a tenth of their time."""
_timed: list[float] = []
"""How long the first job of this process took, of which the sweep says how long the others will take."""


def run_job(cfg: DictConfig) -> float | None:
    """Run a job, unless it is finished, another process runs it, or the sweep is stopping.

    Returns:
        The last value of `sweep.metric`; None if there is none.
    """
    process.by_exception()
    stopping.stop_with_the_sweep()
    if stopping.received():
        return None
    hydra: Any = HydraConfig.get()
    try:
        with Log(verbose=hydra.verbose, sweep=Path(hydra.sweep.dir)) as messages:
            return _run_job(cfg, hydra, messages)
    finally:
        stopping.exit_if_alone()


def _run_job(cfg: DictConfig, hydra: Any, messages: Log) -> float | None:
    folder = short(Path(as_written(hydra.runtime, "output_dir")))
    overrides = [override for override in typed_overrides(hydra) if not override.startswith(("sweep.resume=", "trust="))]
    before = read_summary(folder)
    facts: dict[str, Any] = {"job": hydra.job.num, "overrides": overrides}
    if before.get("state") == "finished" and before.get("overrides", overrides) == overrides:
        log.info("Job %d is finished already.", hydra.job.num)
        if "overrides" not in before:  # it was killed when it had trained, before its sweep could add what it knows
            before = amend_summary(folder, facts | _missing_metric(cfg, before))
        return _metric(cfg, before)
    try:
        lock(folder)
    except OSError as error:
        log.error("Job %d is not run: %s.", hydra.job.num, error)
        return None
    frozen()
    began = time.monotonic()
    try:
        with stopping.signals():
            summary = _train(cfg, hydra, folder, facts, messages)
    finally:
        unlock(folder)
        gc.collect()  # a run refers to itself: its tensors would stay until Python happens to collect it
        torch.cuda.empty_cache()
    if hydra.launcher._target_.endswith(".BasicLauncher"):
        if summary.get("state") == "finished" and not _timed:
            _timed.append(time.monotonic() - began)
            later = {job: run for job, run in Results.read(Path(hydra.sweep.dir)).jobs.items() if job > hydra.job.num}
            left = sum(run.state != "finished" for run in later.values())
            print(forecast(_timed[0], left), end="", flush=True)
        stopping.exit_if_stopped(Path(hydra.sweep.dir))
    return _metric(cfg, summary)


def _train(cfg: DictConfig, hydra: Any, folder: Path, facts: dict[str, Any], messages: Log) -> dict[str, Any]:
    """Train a job in its locked folder, and return its summary with further facts, which is written there as well."""
    checkpoint = checkpoint_to_resume(folder)
    if checkpoint is None:
        _set_aside(folder)
    sweep = Sweep.load(Path(hydra.sweep.dir))
    overrides = facts["overrides"]
    label, group = sweep.label(overrides), Path(hydra.sweep.dir).name
    try:
        messages.begin(folder)
        of = f" ({hydra.job.num + 1} of {len(sweep.jobs)})" if sweep.jobs else ""
        log.info("Job %d%s: %s.", hydra.job.num, of, label or "no settings differ")
        for warning in doubts(hydra):
            logging.getLogger(doubts.__module__).warning("%s", warning)
        values, config = values_of(cfg, hydra)
        if checkpoint is None:
            write_texts(folder / ".hydra", as_hydra_writes(cfg, hydra))
        with share_of_the_machine(config.device, hydra.launcher):
            plan = check(values, config=config, trust=config.trust, checkpoint=checkpoint)
            trainer = trainer_of(plan, folder, stopping=stopping.signals(), label=label, group=group)
            del plan, checkpoint  # whose state is as large as the run
            point_latest_at(folder.parent)
            log.info("%s", outcome(trainer.fit()))
        facts |= _missing_metric(cfg, read_summary(folder))
    except UserError as error:
        log.warning("Skipped: %s", printable(sentence(error)))
        facts |= {"state": "skipped", "error": sentence(error)}
    except Exception as error:
        log_failure(error, folder)
        first_line = str(error).partition("\n")[0]
        facts |= {"state": "failed", "error": meaning(error, folder) or f"{type(error).__name__}: {first_line}"}
    return amend_summary(folder, facts)


def checkpoint_to_resume(folder: Path) -> Checkpoint | None:
    """Return the last checkpoint of a job that was killed, interrupted, or skipped when it was to be resumed.

    Where `last.pt` is gone or broken, it is the newest numbered one that can be read; without one, and if it failed, a job is
    run from the beginning.
    """
    if read_summary(folder).get("state", "unfinished") not in ("unfinished", "preempted", "skipped"):
        return None
    place = RunFolder(folder)
    kept = [*([place.last] if place.last.exists() else []), *reversed(place.numbered)]
    for path in kept:
        try:
            return Checkpoint(path, load(path))
        except CheckpointError as error:
            log.warning("%s: the job goes on from an earlier checkpoint, if it has one.", printable(str(error)))
    return None


def _set_aside(folder: Path) -> None:
    """Move the files of an earlier attempt at this job into a folder of their own.

    The summary is moved after the checkpoints: whenever this is interrupted, it still says that the attempt does not go on.
    """
    left = [path for path in RunFolder(folder).results if path.exists()]
    if not left:
        return
    number = 1
    while (aside := folder / f"attempt{number}").exists():
        number += 1
    aside.mkdir()
    for path in reversed(left):
        shutil.move(path, aside / path.name)
    log.info("The job begins anew; what it had written is in %s.", aside)


def _missing_metric(cfg: DictConfig, summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the error of a job that does not log what the sweep optimises."""
    metric, last = cfg.sweep.metric, summary.get("last", {})
    if not metric or metric in last:
        return {}
    logged = ", ".join(key for key, value in last.items() if isinstance(value, (int, float)))
    return {"error": f"sweep.metric={metric} is not among what it logs: {logged}"}


def _metric(cfg: DictConfig, summary: Mapping[str, Any]) -> float | None:
    last = summary.get("last") if summary.get("state") == "finished" else None
    value = last.get(cfg.sweep.metric) if isinstance(last, dict) else None
    return value if isinstance(value, (int, float)) and value == value else None
