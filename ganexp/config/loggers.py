"""Where a configured run writes its rows."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ganexp.config.check import Plan
from ganexp.config.metrics import measured_by
from ganexp.config.schema import ConfigError
from ganexp.config.targets import name_of
from ganexp.instruments.scalar import Scalar
from ganexp.logging import FolderLogger, Logger, ProgressLogger, WandbLogger
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import FolderLocked
from ganexp.logging.provenance import provenance
from ganexp.logging.reading import read
from ganexp.logging.wandb_account import WandbError, resolved_mode


def refuse_used_folder(folder: Path) -> None:
    """Refuse a folder that holds a run, so that no two runs are mixed and nothing is overwritten.

    Raises:
        ConfigError: There are rows in the folder.
    """
    if os.path.lexists(RunFolder(folder).rows):
        raise ConfigError(f"{folder} holds a run already: choose another hydra.run.dir.")


def loggers_of(plan: Plan, folder: Path | None, figures: Mapping[str, Scalar], *, resumed: bool) -> list[Logger]:
    """Open the loggers of a run, given what its evaluation measures.

    Raises:
        ConfigError: The folder is taken, or W&B cannot begin a run with these settings.
    """
    config = plan.config
    measures = {**measured_by(config), **figures}
    if folder is None:
        return [ProgressLogger(config.iterations, measures)]
    try:
        disabled = resolved_mode(config.wandb.mode) == "disabled"
    except WandbError as error:
        raise ConfigError(f"{error}.") from None
    origin = provenance()
    try:
        described = {key: asdict(measure) for key, measure in measures.items()}
        rows = FolderLogger(folder, resumed=resumed, config=plan.values, provenance=origin, measures=described)
    except FolderLocked as error:
        raise ConfigError(f"{folder} is in use ({error}): choose another hydra.run.dir, or wait.") from error
    try:
        to_wandb = [] if disabled else [_wandb_logger(plan, plan.values | {"provenance": origin}, folder, measures)]
    except ConfigError:
        rows.abandon()
        raise
    return [rows, ProgressLogger(config.iterations, measures), *to_wandb]


def _wandb_logger(plan: Plan, values: dict[str, Any], folder: Path, measures: Mapping[str, Scalar]) -> WandbLogger:
    config = plan.config
    assert config.wandb.mode != "disabled"
    directory = config.wandb.directory or os.environ.get("WANDB_DIR") or "outputs"
    name = f"{name_of(config.dataset)}-{name_of(config.loss)}-{name_of(config.strategy)}-seed{config.seed}"
    try:
        logger = WandbLogger(
            mode=config.wandb.mode,
            directory=directory,
            config=values,
            entity=config.wandb.entity,
            project=config.wandb.project or os.environ.get("WANDB_PROJECT") or "ganexp",
            group=config.wandb.group,
            tags=config.wandb.tags,
            name=config.wandb.name or os.environ.get("WANDB_NAME") or name,
            notes=config.wandb.notes,
            before=read(folder),
            measures=measures,
        )
    except OSError as error:
        raise ConfigError(f"wandb.directory={directory} cannot be written: {error}.") from error
    except WandbError as error:
        raise ConfigError(f"{error}.") from error
    RunFolder(folder).wandb_id.write_text(f"{logger.run.id}\n")
    return logger
