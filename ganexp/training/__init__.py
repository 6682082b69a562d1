"""The training loop and its instruments."""

from ganexp.training.ema import EMA, NoEMA
from ganexp.training.trainer import Summary, Trainer

__all__ = ["EMA", "NoEMA", "Summary", "Trainer"]
