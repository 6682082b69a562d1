"""Which recorded overrides may be given again without having been typed: a run folder may come from anyone.

What its overrides say of ganexp's own keys is checked like every configuration (and with `trust`, so that no target outside
ganexp is imported); what they say to Hydra is not, and Hydra calls what it is told to.
"""

import re
from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from ganexp.configuration.schema import ConfigError

LAUNCHER_KEYS = (
    *("n_jobs", "backend", "verbose", "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "nodes", "mem_gb"),
    *("name", "partition", "account", "qos", "signal_delay_s", "max_num_timeout", "array_parallelism"),
)
HARMLESS = re.compile(
    rf"hydra/launcher=\w+|hydra\.launcher\.({'|'.join(LAUNCHER_KEYS)})=[\w-]+|hydra\.sweeper\.max_batch_size=\d+"
)
"""All that a recorded override may say to Hydra: which launcher, and how many jobs of what size; no code, and no paths."""


def refuse_risky(overrides: Sequence[str], where: str) -> None:
    """Refuse recorded overrides that could make Hydra import, call or write something.

    Args:
        overrides: As they would be typed.
        where: The key that led here, with which the sentence begins.

    Raises:
        ConfigError: There is such an override.
    """
    for override in overrides:
        if HARMLESS.fullmatch(override.lstrip("+")):
            continue
        shown = override if override.isprintable() and len(override) < 200 else f"{override[:200]!r}…"
        try:
            (parsed,) = OverridesParser.create().parse_overrides([override])
        except (HydraException, ValueError, RecursionError):
            raise ConfigError(f"{where}: {shown}, which it has recorded, is not an override.") from None
        key, package = parsed.key_or_group, parsed.package or ""
        whole = not {".", "@"} & set(key + package) and key != "data_root"  # so that it may choose a file below conf/
        value = override.partition("=")[2]
        if "hydra" in re.split(r"[./@:]", f"{key}.{package}") or ".." in key or (whole and (".." in value or "$" in value)):
            raise ConfigError(
                f"{where}: {shown}, which it has recorded, could run code: type it again, beside this, if it is your own."
            )
