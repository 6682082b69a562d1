"""Where a configured run writes its rows."""

import copy
import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from ganexp.config.check import Plan, check_loggers
from ganexp.config.choices import name_of
from ganexp.config.metrics import measured_by
from ganexp.config.plugins import distributions
from ganexp.config.schema import ConfigError
from ganexp.instruments.scalar import Scalar
from ganexp.logging import FolderLogger, Logger, ProgressLogger, RunDescription, Summary
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import FolderLocked
from ganexp.logging.provenance import provenance
from ganexp.logging.reading import read

log = logging.getLogger(__name__)
NEVER_BEGUN: Summary = {"state": "failed", "iteration": 0, "wall_s": 0.0, "notes": [], "paths": {}, "last": {}}


def refuse_used_folder(folder: Path) -> None:
    """Refuse a folder that holds a run, so that no two runs are mixed and nothing is overwritten."""
    if os.path.lexists(RunFolder(folder).rows):
        raise ConfigError(f"{folder} holds a run already: choose another hydra.run.dir.")


def loggers_of(
    plan: Plan, folder: Path | None, figures: Mapping[str, Scalar], *, resumed: bool, label: str = "", group: str = ""
) -> list[Logger]:
    """Open the loggers of a run, given what its evaluation measures; see `RunDescription` for the rest.

    Raises:
        ConfigError: The folder is taken, or a logger cannot begin.
    """
    config = plan.config
    measures = {**measured_by(config.loss, config.augment), **figures}
    if folder is None:
        return [ProgressLogger(config.iterations, measures)]
    for warning in check_loggers(plan):
        log.warning("%s", warning)
    origin = provenance(*distributions())
    try:
        described = {key: asdict(measure) for key, measure in measures.items()}
        rows = FolderLogger(folder, resumed=resumed, config=plan.values, provenance=origin, measures=described)
    except FolderLocked as error:
        raise ConfigError(f"{folder} is in use ({error}): choose another hydra.run.dir, or wait.") from error
    name = f"{name_of(config.dataset)}-{name_of(config.loss)}-{name_of(config.strategy)}-seed{config.seed}"
    run = RunDescription(folder, name, label, group, plan.values | {"provenance": origin}, measures, read(folder))
    loggers = copy.deepcopy(plan.parts.loggers)  # a plan may be built more than once
    with ExitStack() as begun:  # if a later logger cannot be opened, the earlier ones are closed
        begun.callback(rows.abandon)
        for key, logger in loggers.items():
            try:
                with plan.choices[key].saying():
                    logger.open(run)
            except OSError as error:
                raise ConfigError(f"{key} cannot write: {error}.") from error
            begun.callback(logger.close, NEVER_BEGUN)
        begun.pop_all()
    return [rows, ProgressLogger(config.iterations, measures), *loggers.values()]
