"""Which recorded overrides may be reused without being typed again: a run folder may come from anyone.

Overrides of ganexp's own keys are checked like every configuration (and with `trust`, so that no target outside ganexp is
imported). That leaves overrides of Hydra's keys, since Hydra calls what it is told to; interpolations, which read the
environment; files that are code; and places to write to.
"""

import re
from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from ganexp.config.plain import flat
from ganexp.config.schema import ConfigError, files_among

HARMLESS = re.compile(
    r"hydra/launcher=\w+|hydra\.sweeper\.max_batch_size=\d+|hydra\.launcher\.("
    r"n_jobs|jobs_per_gpu|backend|verbose|timeout_min|cpus_per_task|gpus_per_node|tasks_per_node|nodes|mem_gb|"
    r"name|partition|account|qos|signal_delay_s|max_num_timeout|array_parallelism)=[\w-]+"
)
"""All that a recorded override may say to Hydra: which launcher, and how many jobs of what size; no code, and no paths."""
WRITTEN_TO = ("data_root", "dataset.root")
"""Where a run writes besides its folder: data sets are downloaded there."""
LOGGED = re.compile(r"logger|logger\.wandb\.(mode|entity|project|group|name|notes|tags|artifacts)")
"""The settings of loggers that may be reused; any other may be a place to write to."""


def risk_of(override: str) -> str | None:
    """Return what an override could do that only the person who types it may decide; None if there is nothing.

    Raises:
        HydraException, ValueError, RecursionError: The text is no override.
    """
    if HARMLESS.fullmatch(override.lstrip("+")):
        return None
    (parsed,) = OverridesParser.create().parse_overrides([override])
    key, package, value = parsed.key_or_group, parsed.package or "", parsed.value()
    whole = not {".", "@"} & set(key + package) and key != "data_root"  # such a key may choose a file below conf/
    if "hydra" in re.split(r"[./@:]", f"{key}.{package}") or ".." in key or (whole and ".." in override.partition("=")[2]):
        return "run code"
    if "${" in f"{override} {value!r}":  # Hydra's escapes may hide it in the text, and sweeps nest values
        return "read what it should not, by its interpolation"
    said = dict(flat({key: value}))
    if files_among(said.get("evaluation.features", "auto")):
        return "run code"
    logged = any(one.startswith("logger") and not LOGGED.fullmatch(one) and value is not None for one, value in said.items())
    return "write elsewhere" if logged or any(said.get(place) is not None for place in WRITTEN_TO) else None


def refuse_risky(overrides: Sequence[str], where: str) -> None:
    """Refuse recorded overrides that could run code, read the environment or write outside the folder.

    Args:
        overrides: As they would be typed.
        where: The key that led here; the error message begins with it.
    """
    for override in overrides:
        shown = override if override.isprintable() and len(override) < 200 else f"{override[:200]!r}…"
        try:
            risk = risk_of(override)
        except (HydraException, ValueError, RecursionError):
            raise ConfigError(f"{where}: {shown}, which it has recorded, is not an override.") from None
        if risk:
            raise ConfigError(
                f"{where}: {shown}, which it has recorded, could {risk}: type it again, beside this, if it is your own."
            )
