"""Weights & Biases, online or in a local folder."""

import logging
import netrc
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlparse

from ganexp.logbook.book import Book, Picture, Row, State
from ganexp.logbook.keys import KEYS

log = logging.getLogger(__name__)


class WandbBook(Book):
    """One W&B run. All runs share the folder `directory`/wandb, so that local viewers find them together.

    Every row carries its own iteration, which is the x-axis of every chart. A server that does not answer, or does not
    want the run, never stops it: after `timeout_s` it is recorded offline instead, and the log says so. One that is lost
    later costs a wait of four times `timeout_s` at the end. Rows are on this disk in every case, and the signposts say
    how to upload them.

    Args:
        mode: `auto` is online when an account is configured (or as `WANDB_MODE` says), offline otherwise.
        directory: Where the folder `wandb` lies.
        config: The whole resolved configuration, as plain values.
        entity, project, group, tags, name, notes: As in `wandb.init`; W&B's own variables stand in for what is absent.
        run_id: The run to go on with, if it was begun before.
        written: The last iteration that it has a row of; rows up to there are not written again.
        timeout_s: Patience at the start; at the end, for the last rows, four times as much.
    """

    def __init__(
        self,
        *,
        mode: Literal["auto", "online", "offline"],
        directory: str,
        config: dict[str, Any],
        entity: str | None = None,
        project: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        name: str | None = None,
        notes: str | None = None,
        run_id: str | None = None,
        written: int = 0,
        timeout_s: float = 10,
    ) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # W&B's reports on itself wait for the server at exit
        import wandb  # half a second of start-up that wandb.mode=disabled does not pay

        self._image = wandb.Image
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        settings = wandb.Settings(init_timeout=timeout_s, finish_timeout=4 * timeout_s, silent=True, console="off")
        arguments: dict[str, Any] = {
            "dir": directory,
            "config": config,
            "entity": entity,
            "project": project,
            "group": group,
            "tags": list(tags) or None,
            "name": name,
            "notes": notes,
            "id": run_id,
            "resume": "allow" if run_id else None,
            "settings": settings,
            "reinit": "create_new",
        }
        mode = _account_mode() if mode == "auto" else mode
        self._wanted = mode == "online"
        try:
            self.run = wandb.init(mode=mode, **arguments)
        except wandb.errors.Error as error:
            if mode == "offline" or isinstance(error, wandb.errors.UsageError):
                raise
            log.warning("W&B cannot be reached (%s); this run is recorded offline.", str(error).splitlines()[0])
            wandb.teardown()
            mode = "offline"
            self.run = wandb.init(mode=mode, **arguments)
        self.mode = mode
        self._lost, self._broken, self._written = False, False, written
        self.run.define_metric("progress/iteration")
        self.run.define_metric("*", step_metric="progress/iteration")
        for key, (_, summary) in KEYS.items():
            if summary != "last":  # which is the default, and then stands under the key itself
                self.run.define_metric(key, step_metric="progress/iteration", summary=summary)

    def write(self, row: Row) -> None:
        iteration = row["progress/iteration"]
        assert not isinstance(iteration, Picture)
        if self._broken or iteration <= self._written:
            return
        self._written = int(iteration)
        try:
            self.run.log({key: self._image(value.image) if isinstance(value, Picture) else value for key, value in row.items()})
        except Exception as error:  # W&B's own process may die; training must not
            self._give_up(error)

    def close(self, state: State) -> None:
        try:
            if state == "preempted":
                self.run.mark_preempting()
            self.run.finish(exit_code=0 if state == "finished" else 1)
        except Exception as error:
            self._give_up(error)
        self._lost = self.mode == "online" and (self._broken or _upload_failed(Path(self.run.dir).parent))

    def signposts(self) -> dict[str, str]:
        if self.mode == "online" and not self._lost:
            return {"W&B": str(self.run.url)}
        upload = f"wandb sync --include-online {shlex.quote(str(Path(self.run.dir).parent))}"
        return {"W&B": f"wandb leet {os.path.join(self.directory, 'wandb')}"} | ({"upload": upload} if self._wanted else {})

    def _give_up(self, error: Exception) -> None:
        self._broken = True
        log.warning("W&B has failed (%s); rows go on into metrics.jsonl.", str(error).partition("\n")[0])


def _upload_failed(folder: Path) -> bool:
    """Say whether W&B's service has noted an error while it uploaded a run; nothing else tells."""
    try:
        return '"level":"ERROR' in (folder / "logs" / "debug-internal.log").read_text(errors="replace")
    except OSError:
        return False


def _account_mode() -> Literal["online", "offline"]:
    import wandb

    asked = os.environ.get("WANDB_MODE")
    if asked:
        return "online" if asked in ("online", "shared") else "offline"
    settings = wandb.setup().settings  # from the environment and W&B's own settings files
    if settings.api_key or settings.identity_token_file:
        return "online"
    hosts = (urlparse(settings.base_url).netloc, "api.wandb.ai")  # the second is where older logins were kept
    try:
        logins = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return "offline"
    return "online" if any(logins.authenticators(host) for host in hosts) else "offline"
