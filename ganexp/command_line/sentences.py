"""One sentence for each mistake that Hydra finds on a command line: the key, and the remedy."""

import errno

from hydra.errors import ConfigCompositionException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError

from ganexp.configuration.parsing import unknown_key

EXTRAS = {"joblib": "joblib", "submitit_slurm": "submitit", "submitit_local": "submitit", "optuna": "optuna"}
"""By a plugin's option: the extra of pyproject.toml that brings it."""


def sentence(error: Exception) -> str:
    """Say in one sentence what Hydra or OmegaConf say in paragraphs."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        if option in EXTRAS:
            return f"{group}={option} is a plugin that is not installed: pip install -e '.[{EXTRAS[option]}]'."
        return f"{group}={option} is no option; choose one of {', '.join(error.options)}."
    if isinstance(error, OverrideParseException):
        override = str(error.override)
        shown = override if override.isprintable() else repr(override)
        reason = "; ".join(line.strip() for line in str(error).replace(override, "").splitlines()[1:2])
        return f"{shown} cannot be read as key=value{f': {reason}' if reason else ''}."
    cause = error.__cause__
    if isinstance(error, ConfigCompositionException) and isinstance(cause, (ConfigAttributeError, ConfigKeyError)):
        siblings = cause.parent_node if isinstance(cause.parent_node, DictConfig) else {}
        return unknown_key(str(cause.full_key), [str(key) for key in siblings if key != "hydra"])
    if str(error).startswith("Config group override must be"):
        return "a group cannot be null; give it one of its options, as in loss=hinge."
    if "Ambiguous value" in str(error):
        key, _, value = str(error).splitlines()[0].split("'")[1].partition("=")
        return f"{key}={value} is several values: add -m to run each of them, or write {key}=[{value}] for a list."
    lines = [line.strip().rstrip(".") for line in str(error).splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith("See https://")) + "."


def mishap(error: Exception) -> str | None:
    """Say in one sentence what went wrong around a run, not in it; None for what may be a mistake of ours."""
    text = str(error)
    if type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in text or "not enough memory" in text:
        asked = next((line.strip() for line in text.splitlines() if "allocate" in line), "memory ran out")
        return f"Out of memory ({asked.rstrip('.')}): lower batch_size, dataset.image_size or the width of a network."
    decoded = next((line for line in reversed(text.splitlines()) if "cannot be decoded as an image" in line), None)
    if decoded:
        return f"{decoded.removeprefix('OSError: ')}: remove it or replace it, and go on with resume=."
    if "DataLoader worker" in text and "exited unexpectedly" in text:
        return "A process that decodes images has died, mostly for want of memory: lower workers, and go on with resume=."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"The disk is full ({error}): what was written is kept; make room, and go on with resume=."
    if "CUDA error" in text or type(error).__name__ == "AcceleratorError":
        return f"The GPU has failed ({text.splitlines()[0]}): the last checkpoint is intact; go on with resume=."
    return None
