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
    "Ending": "base",
    "FolderLogger": "folder",
    "Logger": "base",
    "Picture": "base",
    "ProgressLogger": "progress",
    "Row": "base",
    "RunDescription": "base",
    "Summary": "base",
    "TensorBoardLogger": "tensorboard",
    "TrackioLogger": "trackio",
    "WandbLogger": "weights_and_biases",
}
"""Where each name is defined; imported when it is first used: commands read run folders, for which no logger is needed."""

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
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)
