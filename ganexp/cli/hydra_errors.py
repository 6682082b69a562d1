"""Hydra's errors during composition, each as one sentence that names the key and the remedy.

Hydra and OmegaConf explain errors in paragraphs, some mistakes have no exception type of their own, and on others Hydra fails
with whatever Python raises. Only this file examines their messages.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from ganexp.config.defaults import option_files
from ganexp.config.parsing import unknown_key
from ganexp.config.schema import GROUPS, LISTS
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
    text = str(error)
    if text.startswith("Config group override must be"):  # a plain ValueError
        return f"{_last_override(error)}a group takes one of its options, as in loss=hinge."
    if "Ambiguous value" in text:  # a plain HydraException
        key, _, value = text.splitlines()[0].split("'")[1].partition("=")
        a_list = "" if key in (*GROUPS, "experiment", "evaluation.protocol") else f", or write {key}=[{value}] for a list"
        return f"{key}={value} is several values: add -m to run each of them{a_list}."
    if text.startswith("Sweep parameters '"):  # a plain HydraException too
        override = text.split("'")[1]
        return f"{override} is several values: add -m to run each of them."
    if text.startswith("Error merging override "):  # a list where there are keys, or keys where there is a value
        override = text.splitlines()[0].removeprefix("Error merging override ").strip()
        return (
            f"{override} gives one value to what has settings, or settings to one value: set each by its own key, as in a.b=…."
        )
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


def _last_override(error: Exception) -> str:
    """Return the override that Hydra was processing, for an error whose text does not name it."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    override = trace.tb_frame.f_locals.get("override") if trace else None
    return f"{override.input_line}: " if isinstance(override, Override) else ""


def _unknown_option(group: str, option: str, names: list[str]) -> str:
    if option in EXTRAS:
        return missing_plugin(group, option)
    if group in LISTS:  # Hydra does not always list their options
        names = sorted(option_files(group))
        return f"{group}=[{option}] is not an option; choose from {', '.join(names)}, or {group}=[] for none of them."
    return f"{group}={option} is not an option; choose one of {', '.join(names)}."
