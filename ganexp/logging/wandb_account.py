"""W&B's environment variables, settings files and account, checked before a run writes anything."""

import os
import re
from typing import Literal

from ganexp.facts import Misfit

Mode = Literal["online", "offline", "disabled"]
MODES: dict[str, Mode] = {"shared": "online", "run": "online", "dryrun": "offline"}
"""The meanings of further values of WANDB_MODE, some of which are W&B's older names."""


def resolved_mode(asked: str) -> Mode:
    """Return the mode of a run: `auto` is what WANDB_MODE says, or else online if there is an account, and offline if not.

    Settings that W&B refuses, and `online` without an account, are a Misfit. An empty variable counts as unset. No server is
    asked.
    """
    for name in [name for name, value in os.environ.items() if name.startswith("WANDB_") and not value]:
        del os.environ[name]
    os.environ.pop("WANDB_SERVICE", None)  # each job of a sweep has a wandb-core of its own: its parent's may have died
    wanted = os.environ.get("WANDB_MODE", "auto") if asked == "auto" else asked
    if wanted == "disabled":
        return "disabled"
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # W&B's reports on itself wait for the server at exit
    import wandb  # half a second of start-up that mode=disabled does not pay

    try:  # here W&B reads its variables and files; unless it is silent, login asks the server for the user's name
        settings = wandb.Settings(silent=True)
        if asked == "online":
            settings.mode = "online"  # else login refuses while WANDB_MODE=offline
        wandb.setup(settings)
        online = MODES.get(wanted, wanted) != "offline" and wandb.login(prompt=False, verify=False)
    except Exception as error:
        reason = f"W&B refuses its settings ({_reason(error)}): correct or unset them"
        raise Misfit(f"cannot begin a run: {reason}", mode="disabled") from None
    if MODES.get(wanted, wanted) == "online" and not online:
        source = "WANDB_MODE" if asked == "auto" else "mode"
        raise Misfit(f"cannot begin a run: {source}=online needs a login: run wandb login or set WANDB_API_KEY", mode="offline")
    return "online" if online else "offline"


def _reason(error: Exception) -> str:
    """Return which setting W&B objects to and why, as one line: `mode: Input should be …`."""
    heading, *lines = [line.strip() for line in str(error).splitlines()] or [type(error).__name__]
    reason = f"{lines[0]}: {lines[1]}" if "validation error" in heading and len(lines) > 1 else heading
    return re.sub(r" \[type=.*", "", reason).rstrip(".")
