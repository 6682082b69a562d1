"""One sentence for each mistake that Hydra finds on a command line: the key, and the remedy."""

from hydra.errors import ConfigCompositionException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError

from ganexp.config import unknown_key


def sentence(error: Exception) -> str:
    """Say in one sentence what Hydra or OmegaConf say in paragraphs."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        return f"{group}={option} is no option; choose one of {', '.join(error.options)}."
    if isinstance(error, OverrideParseException):
        return f"{error.override} cannot be read as key=value: {str(error).splitlines()[1]}."
    cause = error.__cause__
    if isinstance(error, ConfigCompositionException) and isinstance(cause, (ConfigAttributeError, ConfigKeyError)):
        siblings = cause.parent_node if isinstance(cause.parent_node, DictConfig) else {}
        return unknown_key(str(cause.full_key), [str(key) for key in siblings if key != "hydra"])
    if "Ambiguous value" in str(error):
        key, _, value = str(error).splitlines()[0].split("'")[1].partition("=")
        return f"{key}={value} is several values: add -m to run each of them, or write {key}=[{value}] for a list."
    lines = [line.strip().rstrip(".") for line in str(error).splitlines()]
    return "; ".join(line for line in lines if line and not line.startswith("See https://")) + "."
