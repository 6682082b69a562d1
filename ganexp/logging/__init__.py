"""Loggers for rows and pictures, the run folder, and reading it back."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganexp.logging.base import Ending, Logger, Picture, Row, RunDescription, Summary
    from ganexp.logging.folder import FolderLogger
    from ganexp.logging.progress import ProgressLogger
    from ganexp.logging.tensorboard import TensorBoardLogger
    from ganexp.logging.trackio import TrackioLogger
    from ganexp.logging.weights_and_biases import WandbLogger

HOMES = {
    "base": ("Ending", "Logger", "Picture", "Row", "RunDescription", "Summary"),
    "folder": ("FolderLogger",),
    "progress": ("ProgressLogger",),
    "tensorboard": ("TensorBoardLogger",),
    "trackio": ("TrackioLogger",),
    "weights_and_biases": ("WandbLogger",),
}
"""What each module defines; imported when it is first used: commands read run folders, for which no logger is needed."""

__all__ = [
    "Ending",
    "FolderLogger",
    "Logger",
    "Picture",
    "ProgressLogger",
    "Row",
    "RunDescription",
    "Summary",
    "TensorBoardLogger",
    "TrackioLogger",
    "WandbLogger",
]


def __getattr__(name: str) -> Any:
    for home, names in HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
