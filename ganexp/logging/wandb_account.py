"""W&B's environment variables and settings files, checked before a run writes anything."""

import netrc
import os
import re
from typing import Literal
from urllib.parse import urlparse

from ganexp.facts import Misfit

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


class WandbError(Misfit):
    """W&B cannot start a run with its settings."""


def resolved_mode(mode: str) -> Mode:
    """Return the mode of a run: `auto` is what WANDB_MODE says, or else online if there is an account, and offline if not.

    An empty variable counts as unset.

    Raises:
        WandbError: W&B would refuse its settings, or the run is to go online without an account.
    """
    if mode == "disabled":
        return "disabled"
    for name in [name for name, value in os.environ.items() if name.startswith("WANDB_") and not value]:
        del os.environ[name]
    variable = os.environ.get("WANDB_MODE")
    if variable and variable not in MODES:
        raise WandbError(f"WANDB_MODE should be online, offline or disabled, not {variable}: set one of these or unset it")
    wanted = MODES.get((variable if mode == "auto" else mode) or "")
    if wanted == "disabled":
        return "disabled"
    _refuse_bad_settings()
    if wanted == "online" and not _has_account():
        source = "WANDB_MODE" if mode == "auto" else "mode"
        raise WandbError(f"{source}=online needs a login: run wandb login or set WANDB_API_KEY", mode="offline")
    return wanted or ("online" if _has_account() else "offline")


def _refuse_bad_settings() -> None:
    """Refuse an environment variable that W&B would refuse, and name it."""
    import wandb

    given = {name: value for name, value in os.environ.items() if name.startswith("WANDB_")}
    for name, value in given.items():
        try:
            wandb.Settings().update_from_env_vars({name: value})
        except (ValueError, wandb.errors.UsageError) as error:
            shown = "" if name == "WANDB_API_KEY" else f"={value!r}"
            raise WandbError(f"{name}{shown} is not accepted by W&B ({_reason(error)}): correct or unset it") from None
    key = given.get("WANDB_API_KEY")
    if key and not re.fullmatch(r"[\w.-]{40,}", key, re.ASCII):
        raise WandbError("WANDB_API_KEY should be at least 40 letters, digits, dashes or dots, without spaces or line breaks")


def _reason(error: Exception) -> str:
    """Return what W&B objects to, without the paragraphs around it."""
    lines = str(error).splitlines()
    line = lines[2] if "validation error" in lines[0] and len(lines) > 2 else lines[0]
    return line.partition(" [type=")[0].strip().rstrip(".")


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
