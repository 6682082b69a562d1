"""One job of a sweep: whatever happens to it, the others are run."""

import gc
import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig

from ganexp.cli.checks import settle_groups
from ganexp.cli.ending import forecast, outcome
from ganexp.cli.failures import explain, log_failure
from ganexp.cli.folders import point_latest_at
from ganexp.cli.naming import rename_groups, short, typed_overrides
from ganexp.cli.recorded import record_command
from ganexp.cli.state import state
from ganexp.cli.sweeping import Results, Sweep, stopping
from ganexp.cli.sweeping.sharing import share_of_the_machine
from ganexp.config.build import build
from ganexp.config.schema import ConfigError
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import lock, unlock
from ganexp.logging.summary import amend_summary, read_summary
from ganexp.printable import printable

log = logging.getLogger(__name__)


def run_job(cfg: DictConfig, hydra: Any) -> float | None:
    """Run a job, unless it is finished, another process runs it, or the sweep is stopping. Its summary.json says how it ended.

    Returns:
        The last value of `sweep.metric`; None if there is none.
    """
    if stopping.received():
        return None
    logging.raiseExceptions = False  # for a train.log on a full disk; the console says the same
    folder = short(Path(hydra.runtime.output_dir))
    overrides = [one for one in typed_overrides(hydra) if not one.startswith(("sweep.resume=", "trust="))]
    rename_groups(cfg, overrides)
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
    began = time.monotonic()
    try:
        with stopping.signals():
            summary = _train(cfg, hydra, folder, facts)
    finally:
        unlock(folder)
        gc.collect()  # a run refers to itself: its tensors would stay until Python happens to collect it
        torch.cuda.empty_cache()
    if hydra.launcher._target_.endswith(".BasicLauncher"):
        if summary.get("state") == "finished" and not state.timed:
            state.timed = True
            later = {job: run for job, run in Results.read(Path(hydra.sweep.dir)).jobs.items() if job > hydra.job.num}
            left = sum(run.state != "finished" for run in later.values())
            print(forecast(time.monotonic() - began, left), end="", flush=True)
        stopping.exit_if_stopped(Path(hydra.sweep.dir))
    return _metric(cfg, summary)


def _train(cfg: DictConfig, hydra: Any, folder: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """Train a job in its locked folder, and return its summary with further facts, which is written there as well."""
    checkpoint = checkpoint_to_resume(folder)
    if checkpoint is None:
        _set_aside(folder)
    sweep = Sweep.load(Path(hydra.sweep.dir))
    overrides = facts["overrides"]
    label, group = sweep.label(overrides), Path(hydra.sweep.dir).name
    try:
        settle_groups(cfg, hydra)
        with share_of_the_machine(cfg, hydra.launcher):
            trainer = build(
                cfg, folder, checkpoint=checkpoint, stopping=stopping.signals(), trust=cfg.trust, label=label, group=group
            )
            record_command(folder, overrides, sweep.options)
            point_latest_at(folder.parent)
            log.info("%s", outcome(trainer.fit()))
        facts |= _missing_metric(cfg, read_summary(folder))
    except ConfigError as error:
        log.warning("Skipped: %s", printable(error))
        facts |= {"state": "skipped", "error": str(error)}
    except Exception as error:
        log_failure(error)
        first_line = str(error).partition("\n")[0]
        facts |= {"state": "failed", "error": explain(error) or f"{type(error).__name__}: {first_line}"}
    return amend_summary(folder, facts)


def checkpoint_to_resume(folder: Path) -> Path | None:
    """Return the last checkpoint of a job that was killed, interrupted, or skipped when it was to be resumed.

    A job that failed is run from the beginning.
    """
    last = RunFolder(folder).last
    goes_on = read_summary(folder).get("state", "unfinished") in ("unfinished", "preempted", "skipped")
    return last if last.exists() and goes_on else None


def _set_aside(folder: Path) -> None:
    """Move what an earlier attempt at this job has left into a folder of its own: nothing is lost or mixed.

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
