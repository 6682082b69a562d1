"""One run, from the command line to its last message."""

import logging
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ganexp.cli import process
from ganexp.cli.composing import Request, composed
from ganexp.cli.ending import epilogue, stopped_by
from ganexp.cli.folders import lock_or_refuse, make_new, point_latest_at, refuse_unmakeable, write_texts
from ganexp.cli.launching import is_distributed, joined, refuse_different, restarted_since
from ganexp.cli.line import Line
from ganexp.cli.log import Log
from ganexp.cli.naming import called, short
from ganexp.cli.resuming import found_by_auto, newest_unfinished, resumed
from ganexp.cli.sweeping import Sweep
from ganexp.distributed.processes import Processes
from ganexp.facts import UserError
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import refuse_used

if TYPE_CHECKING:
    from ganexp.config.check import Plan

log = logging.getLogger(__name__)


def run(line: Line) -> None:
    """Train one run, in one process or in all that torchrun has started; nothing is written before it has a folder."""
    with joined() if is_distributed() else nullcontext(Processes()) as processes:
        name = line.value_of("resume")
        named = name not in (None, "auto", "null", "")
        request = processes.together(lambda: resumed(line, str(name)) if named else composed(line))
        auto, since = request.values["resume"] == "auto", restarted_since()
        if not (request.checkpoint or auto or since):
            processes.first(lambda: refuse_folder(request))  # before torch is imported and data are loaded
        with Log(shown=processes.is_main, verbose=request.verbose) as messages:
            chosen = " ".join(f"{group}={called(request.values[group])}" for group in ("dataset", "loss", "strategy"))
            log.info("Preparing %s.", chosen)  # at once, since importing torch takes seconds, and on a busy machine many
            from ganexp.cli.failures import logged
            from ganexp.config.build import trainer_of
            from ganexp.config.run_data import obtain
            from ganexp.training import Stopping

            process.by_exception()
            checkpoint = request.checkpoint
            if auto or since:
                checkpoint = processes.first(lambda: to_resume(request, None if auto else since))
            plan = processes.together(lambda: plan_for(request, processes, checkpoint))
            if processes.count > 1:
                refuse_different(plan.values, processes)
            for warning in request.warnings:
                log.warning("%s", warning)
            obtained = processes.together(partial(obtain, plan))
            folder = processes.first(lambda: folder_of(request, checkpoint))
            processes.first(lambda: messages.begin(folder))
            with Stopping() as stopping, logged(processes, folder):
                trainer = processes.together(partial(trainer_of, plan, folder, obtained=obtained, stopping=stopping))
                del plan  # with the checkpoint, whose state is as large as the run
                if processes.is_main:
                    point_latest_at(folder)
                summary = trainer.fit()
                received = next(filter(None, processes.tell(stopping.received)), None)
                stopped = received if summary["state"] == "preempted" else None
                if processes.is_main:
                    log.info("%s", epilogue(summary))
                    if stopped:
                        word = f"resume={short(folder)}" if "checkpoint" in summary["paths"] else None
                        log.info("%s", stopped_by(stopped, word))
                processes.close()
            if stopped:
                raise SystemExit(128 + stopped)


def refuse_folder(request: Request) -> None:
    """Refuse the folder of a new run that is taken or cannot be made."""
    if request.folder == Path():
        raise UserError("hydra.run.dir should name a folder of the run's own, as in hydra.run.dir=outputs/mine.")
    if request.named:
        refuse_used(request.folder)
        if Sweep.is_in(request.folder):
            raise UserError(f"{request.folder} holds a sweep: choose another hydra.run.dir.")
    refuse_unmakeable(request.folder, "hydra.run.dir")


def to_resume(request: Request, since: float | None) -> Path | None:
    """Return the checkpoint that `resume=auto` finds, that of the newest unfinished run; or the last one of a restarted run.

    A run that torchrun has restarted goes on from the last checkpoint that it has written since its first start.
    """
    if request.checkpoint:
        return RunFolder.of_checkpoint(request.checkpoint).last
    checkpoint = newest_unfinished(request.values, request.folder.parent, since=since)
    if since is None:
        log.info("%s", found_by_auto(request.values, request.folder.parent, checkpoint))
    return checkpoint


def plan_for(request: Request, processes: Processes, checkpoint: Path | None) -> "Plan":
    """Return the plan of a run, which goes on from a checkpoint if there is one; its loggers could begin."""
    from ganexp.config.check import check, check_loggers  # imports torch
    from ganexp.config.resume import Checkpoint

    resumed = Checkpoint.read(checkpoint) if checkpoint else None
    values, config = request.values | {"resume": None}, request.config
    plan = check(values, config=config, trust=config.trust, processes=processes, checkpoint=resumed)
    if plan.parts.loggers:
        check_loggers(plan)
    return plan


def folder_of(request: Request, checkpoint: Path | None) -> Path:
    """Make and lock the folder of a run: that of the checkpoint, the one that was typed, or a new one."""
    if checkpoint:
        folder = RunFolder.of_checkpoint(checkpoint).path
        lock_or_refuse(folder, "wait for it, or begin a new run without resume")
        return folder
    refuse_folder(request)  # another run may have taken it since
    folder = request.folder if request.named else make_new(request.folder)
    lock_or_refuse(folder, "choose another hydra.run.dir, or wait")
    write_texts(folder / ".hydra", request.hydra)
    return short(folder.absolute())
