"""What W&B is told by its variables and settings files, looked at before a run makes anything."""

import netrc
import os
import re
from typing import Literal
from urllib.parse import urlparse

Mode = Literal["online", "offline", "disabled"]
MODES: dict[str, Mode] = {
    "online": "online",
    "shared": "online",
    "run": "online",
    "offline": "offline",
    "dryrun": "offline",
    "disabled": "disabled",
}
"""What the values of WANDB_MODE stand for, W&B's older names included."""


def settled(mode: str) -> Mode:
    """Return the mode that a run has: `auto` is what WANDB_MODE says, else online with an account and offline without.

    An empty variable counts as absent.

    Raises:
        ValueError: W&B could not begin a run with the settings that there are, said in one sentence.
    """
    if mode == "disabled":
        return "disabled"
    for name in [name for name, value in os.environ.items() if name.startswith("WANDB_") and not value]:
        del os.environ[name]
    asked = os.environ.get("WANDB_MODE")
    if asked and asked not in MODES:
        raise ValueError(f"WANDB_MODE should be online, offline or disabled, not {asked}: set one of these or unset it")
    wanted = MODES.get((asked if mode == "auto" else mode) or "")
    if wanted == "disabled":
        return "disabled"
    _refuse_bad_settings()
    if wanted == "online" and not _has_account():
        source = "WANDB_MODE" if mode == "auto" else "wandb.mode"
        raise ValueError(f"{source}=online needs a login: run wandb login, set WANDB_API_KEY, or choose wandb.mode=offline")
    return wanted or ("online" if _has_account() else "offline")


def _refuse_bad_settings() -> None:
    """Refuse what W&B would, and name the variable.

    Raises:
        ValueError: A variable has a value that W&B does not take.
    """
    import wandb

    given = {name: value for name, value in os.environ.items() if name.startswith("WANDB_")}
    for name, value in given.items():
        try:
            wandb.Settings().update_from_env_vars({name: value})
        except (ValueError, wandb.errors.UsageError) as error:
            shown = "" if name == "WANDB_API_KEY" else f"={value!r}"
            raise ValueError(f"{name}{shown} is not accepted by W&B ({_reason(error)}): correct or unset it") from None
    key = given.get("WANDB_API_KEY")
    if key and not re.fullmatch(r"[\w.-]{40,}", key, re.ASCII):
        raise ValueError("WANDB_API_KEY should be at least 40 letters, digits, dashes or dots, without spaces or line breaks")


def _reason(error: Exception) -> str:
    """Return what W&B objects to, without the paragraphs around it."""
    lines = str(error).splitlines()
    said = lines[2] if "validation error" in lines[0] and len(lines) > 2 else lines[0]
    return said.partition(" [type=")[0].strip().rstrip(".")


def _has_account() -> bool:
    import wandb

    settings = wandb.setup().settings  # from the environment and W&B's own settings files
    if settings.api_key or settings.identity_token_file:
        return True
    hosts = (urlparse(settings.base_url).netloc, "api.wandb.ai")  # the second is where older logins were kept
    try:
        logins = netrc.netrc(os.environ.get("NETRC"))
    except (OSError, netrc.NetrcParseError):
        return False
    return any(logins.authenticators(host) for host in hosts)
