"""The training loop and its instruments."""

from ganexp.training.checkpoint import CheckpointError
from ganexp.training.divergence import Diverged
from ganexp.training.ema import EMA, NoEMA
from ganexp.training.stopping import Stopping
from ganexp.training.trainer import Summary, Trainer

__all__ = ["EMA", "CheckpointError", "Diverged", "NoEMA", "Stopping", "Summary", "Trainer"]
