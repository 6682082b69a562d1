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
    "EMA": "averages",
    "Average": "averages",
    "Callback": "run",
    "CheckpointError": "checkpoint",
    "Checkpoints": "checkpoints",
    "Diagnostics": "callbacks",
    "Diverged": "guard",
    "Dynamics": "callbacks",
    "Evaluation": "callbacks",
    "Guard": "guard",
    "Measures": "callbacks",
    "PowerAverage": "averages",
    "Samples": "callbacks",
    "Step": "step",
    "Stopping": "stopping",
    "Trainer": "trainer",
    "UniformAverage": "averages",
}
"""Where each name is defined; imported when it is first used, since a step needs torch alone, and callbacks draw pictures."""

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
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)
