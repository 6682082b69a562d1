"""Hydra's errors during composition, each as one sentence that names the key and the remedy.

Hydra and OmegaConf explain errors in paragraphs, and on some mistakes Hydra fails with whatever Python raises. Mistakes without
an exception type of their own are refused before, in `hydra_internal.Loader`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from ganexp.config.defaults import option_files
from ganexp.config.parsing import unknown_key
from ganexp.config.schema import LISTS
from ganexp.facts import UserError

EXTRAS = {
    "joblib": "joblib",
    "submitit_slurm": "submitit",
    "submitit_local": "submitit",
    "ray": "ray",
    "ray_aws": "ray",
}
"""The extra of pyproject.toml that installs a plugin, by the plugin's option."""


@contextmanager
def composing() -> Iterator[None]:
    """Report whatever Hydra raises while it composes or parses as a mistake in the command line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(sentence(error)) from None


def sentence(error: Exception) -> str:
    """Return one sentence for an error that Hydra has raised while it composed."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        file = str(error.missing_cfg_file)
        group, _, option = file.rpartition("/")
        if error.options or option in EXTRAS or group in LISTS:  # there are none where a preset's plugin is missing
            return _unknown_option(group, option, list(error.options or ()))
    if isinstance(error, OverrideParseException):
        override = str(error.override)
        shown = override if override.isprintable() else repr(override)
        reason = "; ".join(line.strip(" ^") for line in str(error).replace(override, "").splitlines()[1:2])
        reason = "" if reason.startswith("See http") else reason
        if override.endswith(","):
            return f"{shown} ends with a comma: write no space after a comma, and none at the end."
        if "=~" in override:
            key, _, value = shown.partition("=")
            return f"{shown} has a ~, which needs quotes within quotes: \"{key}='{value}'\"."
        quoting = "; quote a value with spaces or signs, \"key='value'\"" if "=" in override and "'" not in override else ""
        return f"{shown} cannot be read as key=value{f': {reason}' if reason else ''}{quoting}."
    cause = error.__cause__
    if isinstance(error, ConfigCompositionException) and isinstance(cause, (ConfigAttributeError, ConfigKeyError)):
        siblings = cause.parent_node if isinstance(cause.parent_node, DictConfig) else {}
        return unknown_key(str(cause.full_key), [str(key) for key in siblings if key != "hydra"])
    if isinstance(error, ConfigCompositionException) and isinstance(cause, OmegaConfBaseException):
        return f"{cause.full_key} has settings and is given one value, or the reverse: set each by its own key, as in a.b=…."
    text = str(error)
    if isinstance(error, YAMLError):
        return f"a file cannot be read as YAML: {' '.join(text.split())}."
    if not isinstance(error, (HydraException, OmegaConfBaseException)):  # Hydra fails without saying anything
        reason = " ".join(text.split())[:80]
        return f"a value is nested too deeply, too long, or not an option of its group, as in loss=hinge ({reason})."
    lines = [line.strip().rstrip(".") for line in text.splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith("See https://")) + "."


def missing_plugin(group: str, option: str) -> str:
    """Return the sentence for an option of a plugin that is not installed."""
    return f"{group}={option} is a plugin that is not installed: pip install -e '.[{EXTRAS[option]}]'."


def _unknown_option(group: str, option: str, names: list[str]) -> str:
    if option in EXTRAS:
        return missing_plugin(group, option)
    if group in LISTS:  # Hydra does not always list their options
        names = sorted(option_files(group))
        return f"{group}=[{option}] is not an option; choose from {', '.join(names)}, or {group}=[] for none of them."
    return f"{group}={option} is not an option; choose one of {', '.join(names)}."
