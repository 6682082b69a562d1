"""Weights & Biases, online or in a local folder."""

import logging
import netrc
import os
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlparse

from ganexp.logbook.book import Book, Picture, Row

log = logging.getLogger(__name__)


class WandbBook(Book):
    """One W&B run. All runs share the folder `directory`/wandb, so that local viewers find them together.

    Every row carries its own iteration, which is the x-axis of every chart. A server that does not answer within
    `timeout_s` never stops a run: it is recorded offline instead, and the log says so.

    Args:
        mode: `auto` is online when an account is configured (or as `WANDB_MODE` says), offline otherwise.
        directory: Where the folder `wandb` lies.
        config: The whole resolved configuration, as plain values.
        project, group, tags, name: As in `wandb.init`.
        timeout_s: Patience at the start; at the end, for the last rows, four times as much.
    """

    def __init__(
        self,
        *,
        mode: Literal["auto", "online", "offline"],
        directory: str,
        config: dict[str, Any],
        project: str | None = None,
        group: str | None = None,
        tags: Sequence[str] = (),
        name: str | None = None,
        timeout_s: float = 15,
    ) -> None:
        import wandb  # half a second of start-up that wandb.mode=disabled does not pay

        self._image = wandb.Image
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        settings = wandb.Settings(init_timeout=timeout_s, finish_timeout=4 * timeout_s, silent=True, console="off")
        arguments: dict[str, Any] = {
            "dir": directory,
            "config": config,
            "project": project,
            "group": group,
            "tags": list(tags),
            "name": name,
            "settings": settings,
            "reinit": "create_new",
        }
        mode = _account_mode() if mode == "auto" else mode
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
        self.run.define_metric("progress/iteration")
        self.run.define_metric("*", step_metric="progress/iteration")

    def write(self, row: Row) -> None:
        self.run.log({key: self._image(value.image) if isinstance(value, Picture) else value for key, value in row.items()})

    def close(self, *, failed: bool) -> None:
        self.run.finish(exit_code=1 if failed else 0)

    def signposts(self) -> dict[str, str]:
        if self.mode == "online":
            return {"W&B": str(self.run.url)}
        return {"W&B": f"wandb leet {os.path.join(self.directory, 'wandb')}"}


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
