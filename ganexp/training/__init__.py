"""The training loop: step, trainer, callbacks, checkpoints."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ganexp.training.averages import EMA, Average, PowerAverage, UniformAverage
    from ganexp.training.callbacks import Diagnostics, Dynamics, Evaluation, Measures, Samples
    from ganexp.training.checkpoint import CheckpointError
    from ganexp.training.checkpoints import Checkpoints
    from ganexp.training.guard import Diverged, Guard
    from ganexp.training.run import Callback
    from ganexp.training.step import Step
    from ganexp.training.stopping import Stopping
    from ganexp.training.trainer import Trainer

HOMES = {
    "averages": ("EMA", "Average", "PowerAverage", "UniformAverage"),
    "callbacks": ("Diagnostics", "Dynamics", "Evaluation", "Measures", "Samples"),
    "checkpoint": ("CheckpointError",),
    "checkpoints": ("Checkpoints",),
    "guard": ("Diverged", "Guard"),
    "run": ("Callback",),
    "step": ("Step",),
    "stopping": ("Stopping",),
    "trainer": ("Trainer",),
}
"""What each module defines; imported when it is first used, since a step needs torch alone, and callbacks draw pictures."""

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


def __getattr__(name: str) -> Any:
    for home, names in HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
