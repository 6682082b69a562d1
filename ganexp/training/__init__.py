"""The training loop: step, trainer, callbacks, checkpoints."""

from ganexp.training.averages import EMA, Average, PowerAverage, UniformAverage
from ganexp.training.callbacks import Diagnostics, Dynamics, Evaluation, Measures, Samples
from ganexp.training.checkpoint import CheckpointError
from ganexp.training.checkpoints import Checkpoints
from ganexp.training.guard import Diverged, Guard
from ganexp.training.run import Callback
from ganexp.training.step import Step
from ganexp.training.stopping import Stopping
from ganexp.training.trainer import Trainer

__all__ = [
    "EMA",
    "Average",
    "Callback",
    "CheckpointError",
    "Checkpoints",
    "Diagnostics",
    "Diverged",
    "Dynamics",
    "Evaluation",
    "Guard",
    "Measures",
    "PowerAverage",
    "Samples",
    "Step",
    "Stopping",
    "Trainer",
    "UniformAverage",
]
