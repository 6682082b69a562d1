"""Weights & Biases, online or in a local folder."""

import logging
import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Annotated, Any, Literal, get_args

from annotated_types import Gt

from ganexp.facts import Facts, Misfit
from ganexp.logging.base import Ending, Logger, Picture, Row, RunDescription, Summary, with_pictures
from ganexp.logging.keys import known
from ganexp.logging.layout import RunFolder
from ganexp.logging.wandb_account import resolved_mode
from ganexp.ranges import checked

log = logging.getLogger(__name__)


class WandbLogger(Logger):
    """One W&B run. All runs share the folder `directory`/wandb, so that local viewers find them together.

    Every row carries its own iteration, which is the x-axis of every chart. A server that does not answer, or refuses the
    run, never stops the run: after `timeout_s`, the run is recorded offline instead, and the log says so. A connection that
    is lost later costs a wait of four times `timeout_s` at the end. W&B's own process keeps what it is given on the local
    disk in every case, and the summary's paths say how to upload it. If that process dies, training goes on without it.

    A run that is resumed continues its W&B run, and logs again the rows since its checkpoint. If it was killed, W&B's process
    may not have written all of its rows: online, those after the server's last row are logged again, offline all of them. A run
    that gets the logger only when it is resumed logs its earlier rows too.

    Args:
        mode: `auto` follows `WANDB_MODE`, or else is online with an account and offline without; `disabled` does nothing.
        directory: Where the folder `wandb` lies; `outputs` if neither this nor `WANDB_DIR` is set.
        entity, project, group, tags, name, notes: As in `wandb.init`; W&B's own environment variables stand in for absent ones.
        artifacts: Which checkpoint becomes an artifact of the run when it ends, however it ends: its last, or the one with the
            best `keep_best`. Offline, the artifact is kept on the local disk, and uploaded with the rest.
        timeout_s: How long the start may take; the end, with the last rows and the artifact, may take four times as long.
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
        self._mode, self._directory, self._artifacts, self._timeout_s = mode, directory, artifacts, timeout_s
        self._chosen: dict[str, Any] = {
            "entity": entity,
            "project": project,
            "group": group,
            "name": name,
            "notes": notes,
            "tags": tags or None,
        }
        self.run: Any = None  # W&B's, from `open` on unless it is disabled
        self._failed = False
        self._missing: list[dict[str, Any]] = []

    def check(self, run: Facts) -> None:
        """Refuse variables that W&B would refuse, going online without an account, and a checkpoint that is not kept."""
        resolved_mode(self._mode)
        if self._artifacts == "best" and not run.keeps_best:
            raise Misfit("gives W&B the best checkpoint, which is kept only with keep_best=…", artifacts="last")

    def open(self, run: RunDescription) -> None:
        """Begin the W&B run, or continue that of a resumed run."""
        mode = resolved_mode(self._mode)
        if mode == "disabled":
            return
        import wandb

        self._wanted, self._folder = mode, run.folder
        self._place = self._directory or os.environ.get("WANDB_DIR") or "outputs"
        os.makedirs(self._place, exist_ok=True)
        for tries, attempt in enumerate((mode, "offline")):
            try:
                self._begin(run, attempt)
                break
            except Exception as error:  # what W&B raises when a server or its own process fails has no common type
                _stop_service()
                if tries or isinstance(error, (ValueError, wandb.errors.UsageError)):
                    raise Misfit(f"cannot start a run ({_first_line(error)})", mode="disabled") from error
                log.warning("W&B could not begin a run (%s); this run is recorded offline.", _first_line(error))
        RunFolder(run.folder).wandb_id.write_text(f"{self.run.id}\n", encoding="utf-8")
        if run.before and not (run.before.wandb_id and run.before.state in get_args(Ending)):
            reached = self.run.summary.get("progress/iteration", -1)  # a server's; offline there is none
            self._missing = [row for row in run.before.rows if row["progress/iteration"] > reached]
        self._queue: SimpleQueue[Row | Ending] = SimpleQueue()
        self._ended = Event()
        Thread(target=self._work, daemon=True).start()

    def write(self, row: Row) -> None:
        if self.run is not None and not self._failed:
            self._queue.put(row)

    def rewind(self, iteration: int) -> Row:
        for row in self._missing:
            if row["progress/iteration"] <= iteration:
                self.write(with_pictures(row, self._folder))
        self._missing = []
        return {}

    def close(self, summary: Summary) -> None:
        if self.run is None:
            return
        self._queue.put(summary["state"])
        with suppress(KeyboardInterrupt):  # whoever presses Ctrl-C now does not want to wait for W&B; the run itself has ended
            self._ended.wait(6 * self._timeout_s)
        if not self._ended.is_set():
            self._give_up(TimeoutError("it does not come to its end"))
        record = Path(self.run.dir).parent
        if not (self._failed or self.run.offline or _upload_failed(record)):
            summary["paths"]["W&B"] = str(self.run.url)
            return
        summary["paths"]["W&B"] = f"wandb leet {os.path.join(self._place, 'wandb')}"
        if self._wanted == "online":  # sync skips what was begun online unless it is told otherwise
            summary["paths"]["upload"] = f"wandb sync --include-online {shlex.quote(str(record))}"

    def _begin(self, run: RunDescription, mode: Literal["online", "offline"]) -> None:
        import wandb

        chosen, run_id = self._chosen, run.before.wandb_id if run.before else None
        label = " ".join(filter(None, [chosen["name"], run.label]))
        own: dict[str, Any] = {
            "project": chosen["project"] or os.environ.get("WANDB_PROJECT") or "ganexp",
            "group": chosen["group"] or os.environ.get("WANDB_RUN_GROUP") or run.group or None,
            "name": label or os.environ.get("WANDB_NAME") or run.name or None,
        }
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=self._timeout_s,
            finish_timeout=4 * self._timeout_s,  # by default, W&B waits for ever
            finish_timeout_raises=True,
        )
        self.run = wandb.init(
            **(chosen | own),
            mode=mode,
            dir=self._place,
            config=run.config,
            id=run_id,
            resume="allow" if run_id else None,
            reinit="create_new",
            settings=settings,
        )
        self.run.define_metric("progress/iteration")
        self.run.define_metric("*", step_metric="progress/iteration")  # offline, W&B's own steps begin anew on resuming
        for key, measure in known(run.measures).items():
            if measure.summary != "last":  # the default; naming it would move the value from `key` to `key.last`
                self.run.define_metric(key, step_metric="progress/iteration", summary=measure.summary)

    def _work(self) -> None:
        """Give W&B rows, and then the end, in a thread of its own: if W&B's own process hangs, so does every call to it."""
        import wandb

        try:
            while isinstance(row := self._queue.get(), dict):
                # Pictures are uint8, (H, W, 3): W&B no longer rescales them.
                self.run.log({key: wandb.Image(x.image) if isinstance(x, Picture) else x for key, x in row.items()})
            if self._artifacts != "off":
                self._keep(self._artifacts)
            if row == "preempted":
                self.run.mark_preempting()
            self.run.finish(exit_code=0 if row == "finished" else 1)  # without it, all jobs of a sweep would be one W&B run
        except Exception as error:  # W&B's own process may die; training must not
            self._give_up(error)
        self._ended.set()

    def _keep(self, which: Literal["last", "best"]) -> None:
        """Give W&B a checkpoint, with the documents that resuming reads, at their places in a run folder."""
        import wandb

        place = RunFolder(self._folder)
        checkpoint = place.last if which == "last" else place.best
        if not checkpoint.is_file():
            log.warning("logger.wandb.artifacts=%s: there is no such checkpoint.", which)
            return
        artifact = wandb.Artifact(f"checkpoint-{self.run.id}", type="checkpoint")
        try:
            for path in (checkpoint, place.wandb_id, *place.path.glob("*.json*")):
                artifact.add_file(str(path), name=path.relative_to(place.path).as_posix())
            self.run.log_artifact(artifact, aliases=[which])
        except Exception as error:  # online, W&B asks the server about the account first, for up to 19 s
            log.warning("W&B has not taken the checkpoint (%s); it is in %s.", _first_line(error), checkpoint)

    def _give_up(self, error: Exception) -> None:
        if self._failed:  # already, and `finish` has noticed it too
            return
        self._failed = True
        log.warning("W&B has failed (%s); its record may lack rows, and the run folder has all.", _first_line(error))
        _stop_service()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _stop_service() -> None:
    """Stop W&B's own process after a failure: at exit, W&B would wait for it, or print a traceback if it has died."""
    import wandb

    def stop() -> None:
        with suppress(BaseException):  # a broken connection, or SystemExit with the process's exit code
            wandb.teardown()

    stopping = Thread(target=stop, daemon=True)
    stopping.start()
    with suppress(KeyboardInterrupt):
        stopping.join(2)


def _upload_failed(record: Path) -> bool:
    """Return whether W&B's own process has logged an error while it uploaded; nothing in W&B's API tells."""
    try:
        return '"level":"ERROR' in (record / "logs" / "debug-internal.log").read_text(errors="replace")
    except OSError:
        return False
