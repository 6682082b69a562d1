"""Loggers for rows and pictures, the run folder, and reading it back."""

from ganexp.logging.base import Ending, Logger, Picture, Row, RunDescription, Summary
from ganexp.logging.folder import FolderLogger
from ganexp.logging.progress import ProgressLogger
from ganexp.logging.tensorboard import TensorBoardLogger
from ganexp.logging.trackio import TrackioLogger
from ganexp.logging.weights_and_biases import WandbLogger

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
