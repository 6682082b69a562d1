"""Weights & Biases, online or in a local folder."""

import atexit
import functools
import glob
import json
import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import psutil
from annotated_types import Gt

from ganexp.facts import Facts, Misfit
from ganexp.instruments.scalar import Scalar
from ganexp.logging.background import Background
from ganexp.logging.base import Ending, Logger, Picture, Row, RunDescription, Summary, with_pictures
from ganexp.logging.keys import known
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import Run
from ganexp.logging.wandb_account import Mode, WandbError, resolved_mode
from ganexp.logging.wandb_artifacts import artifact_of
from ganexp.ranges import checked

log = logging.getLogger(__name__)

START_S = 60
"""Patience at the start in addition to waiting for a server: W&B's own process is slow to start on a busy machine."""
SLOWEST = 2**20
"""The slowest upload of a checkpoint to expect, in bytes per second."""


class WandbLogger(Logger):
    """One W&B run. All runs share the folder `directory`/wandb, so that local viewers find them together.

    Every row carries its own iteration, which is the x-axis of every chart. A server that does not answer, or refuses the
    run, never stops the run: after `timeout_s`, the run is recorded offline instead, and the log says so. A connection that
    is lost later costs a wait of four times `timeout_s` at the end. All calls to W&B's own process are made in a background
    thread, so that a call that hangs delays neither training nor a signal; the process is killed after five times
    `timeout_s`. Rows are on the local disk in every case, and the summary's paths say how to upload them.

    Args:
        mode: `auto` follows `WANDB_MODE`, or else is online with an account and offline without; `disabled` does nothing.
        directory: Where the folder `wandb` lies; `outputs` if neither this nor `WANDB_DIR` is set.
        entity, project, group, tags, name, notes: As in `wandb.init`; W&B's own environment variables stand in for absent ones.
        artifacts: Which checkpoint becomes an artifact of the run when it ends, however it ends: its last, or the one with the
            best `keep_best`. Offline, the artifact is kept on the local disk, and uploaded with the rest.
        timeout_s: Patience at the start; at the end, for the last rows, four times as much.

    Raises:
        ValueError: W&B does not accept the project or the tags.
    """

    @checked
    def __init__(
        self,
        *,
        mode: Literal["auto", "online", "offline", "disabled"] = "auto",
        directory: str | None = None,
        entity: str | None = None,
        project: str | None = None,
        group: str | None = None,
        tags: list[str] | None = None,
        name: str | None = None,
        notes: str | None = None,
        artifacts: Literal["off", "last", "best"] = "off",
        timeout_s: Annotated[float, Gt(0)] = 10,
    ) -> None:
        if project is not None and not re.fullmatch(r"[^/\\#?%:]{1,128}", project):
            raise ValueError(f"project should be 1 to 128 characters without / \\ # ? % and :, not {project[:200]}")
        if any(not 1 <= len(tag) <= 64 for tag in tags or ()):
            raise ValueError("each of tags should have 1 to 64 characters")
        self._asked = mode
        self.mode: Mode = "disabled"
        self.directory = directory or ""
        self._chosen: dict[str, Any] = {
            "entity": entity,
            "project": project,
            "group": group,
            "name": name,
            "notes": notes,
            "tags": tags or None,
        }
        self._artifacts = artifacts
        self._timeout_s, self._patience_s = timeout_s, 5 * timeout_s
        self._broken, self._incomplete, self._written, self._begun = False, False, -1, False

    def check(self, run: Facts) -> None:
        """Refuse variables that W&B would refuse, and going online without an account."""
        try:
            resolved_mode(self._asked)
        except WandbError as error:
            raise Misfit(f"cannot begin a run: {error.reason}", **error.remedy) from None

    def open(self, run: RunDescription) -> None:
        """Begin the W&B run, or continue that of a resumed run; its rows that W&B has lost are written first."""
        self.mode = resolved_mode(self._asked)
        if self.mode == "disabled":
            self._broken = True
            return
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # W&B's reports on itself wait for the server at exit
        import wandb  # half a second of start-up that mode=disabled does not pay

        self._image = wandb.Image
        self.directory = self.directory or os.environ.get("WANDB_DIR") or "outputs"
        self._wanted = self.mode == "online"
        self._background = Background()
        os.makedirs(self.directory, exist_ok=True)
        self._folder = run.folder
        before, timeout_s, chosen = run.before, self._timeout_s, self._chosen
        named = " ".join(filter(None, [chosen["name"], run.label])) or os.environ.get("WANDB_NAME") or run.name
        run_id = before.wandb_id if before else None
        arguments: dict[str, Any] = {
            **chosen,
            "dir": self.directory,
            "config": run.config,
            "project": chosen["project"] or os.environ.get("WANDB_PROJECT") or "ganexp",
            "group": chosen["group"] or os.environ.get("WANDB_RUN_GROUP") or run.group or None,
            "name": named or None,
            "id": run_id,
            "resume": "allow" if run_id else None,
            "settings": wandb.Settings(init_timeout=timeout_s, finish_timeout=4 * timeout_s, silent=True, console="off"),
            "reinit": "create_new",
        }
        try:
            self.run = self._started(arguments)
        except (wandb.errors.Error, TimeoutError) as error:
            if self.mode == "offline" or isinstance(error, wandb.errors.UsageError):
                raise WandbError(f"cannot start a run ({_first_line(error)})", mode="disabled") from error
            log.warning("W&B cannot be reached (%s); this run is recorded offline.", _first_line(error))
            wandb.teardown()
            self.mode = "offline"
            self.run = self._started(arguments)
        atexit.unregister(_kill_suspended_services)
        atexit.register(_kill_suspended_services)  # called first, being registered last: before W&B's own wait
        self._background.submit(functools.partial(self._define, run.measures))
        if before and before.rows:
            self._written = before.rows[-1]["progress/iteration"]
            self._background.submit(functools.partial(self._replay, before))
        RunFolder(run.folder).wandb_id.write_text(f"{self.run.id}\n")

    def write(self, row: Row) -> None:
        iteration = row["progress/iteration"]
        assert not isinstance(iteration, Picture)
        self._begun = True
        if self._broken or iteration <= self._written:
            return
        self._written = int(iteration)
        if self._background.busy_s() > self._patience_s:
            self._give_up("its own process does not answer")
            _kill_service()
        else:
            self._background.submit(functools.partial(self._log, row))

    def rewind(self, iteration: int) -> Row:
        """After a rollback, let later rows be written again; a resumed run only repeats rows that W&B already has."""
        if self._begun:
            self._written = iteration
        return {}

    def flush(self, timeout_s: float) -> bool:
        """Wait until W&B's own process has taken everything, and return whether it has."""
        return self._background.wait(timeout_s)

    def close(self, summary: Summary) -> None:
        if self.mode == "disabled":
            return
        if not self._broken:
            patience_s = self._patience_s
            if self._artifacts != "off":
                patience_s += self._keep_checkpoint(self._artifacts)
            self._background.submit(functools.partial(self._finish, summary["state"]))
            try:
                answered = self.flush(patience_s)
            except KeyboardInterrupt:  # whoever presses Ctrl-C now does not want to wait for W&B; the run itself has ended
                answered = False
            if not answered:
                self._give_up("its own process does not answer")
                _kill_service()
        self._background.close()
        if self.mode == "online" and not (self._broken or self._incomplete) and not _upload_failed(Path(self.run.dir).parent):
            summary["paths"]["W&B"] = str(self.run.url)
            return
        summary["paths"]["W&B"] = f"wandb leet {os.path.join(self.directory, 'wandb')}"
        if self._wanted:
            summary["paths"]["upload"] = f"wandb sync --include-online {shlex.quote(str(Path(self.run.dir).parent))}"

    def _keep_checkpoint(self, which: Literal["last", "best"]) -> float:
        """Begin to upload a checkpoint as an artifact, and return how long that may take, in seconds."""
        path = RunFolder(self._folder).last if which == "last" else RunFolder(self._folder).best
        upload_s = path.stat().st_size / SLOWEST if path.is_file() else 0.0

        def keep() -> None:
            try:
                artifact = artifact_of(self._folder, which, self.run.id)
                if artifact is None:
                    log.warning("logger.wandb.artifacts=%s: there is no such checkpoint.", which)
                    return
                logged = self.run.log_artifact(artifact, aliases=[which])
                if self.mode == "online":
                    logged.wait(timeout=int(4 * self._timeout_s + upload_s) + 1)
            except Exception as error:  # the run finishes without the upload, and W&B's record has the artifact
                log.warning("W&B has not taken the checkpoint (%s); it is in %s.", _first_line(error), path)
                self._incomplete = True

        self._background.submit(keep)
        return upload_s

    def _started(self, arguments: dict[str, Any]) -> Any:
        import wandb

        started = self._background.submit(functools.partial(wandb.init, mode=self.mode, **arguments))
        if not self._background.wait(self._timeout_s + START_S):
            _kill_service()
            self._background = Background()
            raise TimeoutError("its own process does not answer")
        return started.result()

    def _define(self, measures: Mapping[str, Scalar]) -> None:
        self.run.define_metric("progress/iteration")
        self.run.define_metric("*", step_metric="progress/iteration")
        for key, measure in known(measures).items():
            if measure.summary != "last":  # the default, which W&B stores under the key itself
                self.run.define_metric(key, step_metric="progress/iteration", summary=measure.summary)

    def _replay(self, before: Run) -> None:
        """Write the rows of the run folder that W&B lacks: those that it had not written yet when it was killed."""
        try:
            if self.mode == "online":
                last = self.run.summary.get("progress/iteration", -1) if self.run.resumed else -1
                there = set(range(last + 1))
            else:
                there = _recorded_iterations(self.directory, self.run.id, except_in=Path(self.run.dir).parent)
        except Exception as error:
            log.warning("W&B's own record cannot be read (%s), so rows that it has lost are in the run folder only.", error)
            return
        for row in before.rows:
            if row["progress/iteration"] not in there and not self._broken:
                self._log(with_pictures(row, before.folder))

    def _log(self, row: Row) -> None:
        if self._broken:
            return
        try:
            self.run.log({key: self._image(value.image) if isinstance(value, Picture) else value for key, value in row.items()})
        except Exception as error:  # W&B's own process may die; training must not
            self._give_up(_first_line(error))

    def _finish(self, state: Ending) -> None:
        try:
            if state == "preempted":
                self.run.mark_preempting()
            self.run.finish(exit_code=0 if state == "finished" else 1)
        except Exception as error:
            self._give_up(_first_line(error))

    def _give_up(self, reason: str) -> None:
        if not self._broken:
            self._broken = True
            log.warning("W&B has failed (%s); further rows are in the run folder only.", reason)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _recorded_iterations(directory: str, run_id: str, *, except_in: Path) -> set[int]:
    """Return the iterations whose rows are in the files of a run below `directory`/wandb.

    Rows that W&B had not written yet when it was killed are in none of them.
    The folder of the same run that is being written now, `except_in`, is not read.
    """
    files = glob.glob(f"{glob.escape(directory)}/wandb/*run-*-{glob.escape(run_id)}/*.wandb")
    return {iteration for file in files if Path(file).parent != except_in for iteration in _iterations_in(file)}


def _iterations_in(file: str) -> list[int]:
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", file]
    lines = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.splitlines()
    items = (json.loads(line).get("history", {}).get("item", {}) for line in lines if '"progress/iteration"' in line)
    return [int(item["progress/iteration"]) for item in items if "progress/iteration" in item]


def _upload_failed(folder: Path) -> bool:
    """Return whether W&B's service has logged an error while it uploaded a run; there is no other sign."""
    try:
        return '"level":"ERROR' in (folder / "logs" / "debug-internal.log").read_text(errors="replace")
    except OSError:
        return False


def _services() -> list[psutil.Process]:
    """Return W&B's own processes that this process has started."""
    return [process for process in psutil.Process().children() if process.name() == "wandb-core"]


def _kill_service() -> None:
    """Kill W&B's own process when it hangs: whatever waits for it returns, and the next run starts another."""
    import wandb

    services = _services()
    for service in services:
        service.kill()
    psutil.wait_procs(services, timeout=10)
    with suppress(TimeoutError):
        Background().submit(wandb.teardown).exception(10)


def _kill_suspended_services() -> None:
    """Kill W&B's own process if it is suspended: at exit W&B would wait for it for ever."""
    for service in _services():
        if service.status() == psutil.STATUS_STOPPED:
            service.kill()
