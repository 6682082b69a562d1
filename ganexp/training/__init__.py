"""The training loop and its instruments."""

from ganexp.training.checkpoints import Checkpoints
from ganexp.training.ema import EMA, Average
from ganexp.training.guard import Diverged, Guard
from ganexp.training.run import Watcher
from ganexp.training.step import Step, Strategy
from ganexp.training.stopping import Stopping
from ganexp.training.trainer import Trainer
from ganexp.training.untrusted import CheckpointError
from ganexp.training.watching import Evaluation, Measures, Samples, SharedEvaluation, Signs

__all__ = [
    "EMA",
    "Average",
    "CheckpointError",
    "Checkpoints",
    "Diverged",
    "Evaluation",
    "Guard",
    "Measures",
    "Samples",
    "SharedEvaluation",
    "Signs",
    "Step",
    "Stopping",
    "Strategy",
    "Trainer",
    "Watcher",
]
