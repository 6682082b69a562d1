"""Schedules of learning rates and of other numbers of parts: the contract is in base.py."""

from ganexp.schedules.base import Schedule
from ganexp.schedules.coefficients import Coefficient, Coefficients, OptimizerSetting, Setting
from ganexp.schedules.moving import Cosine, Ending, Linear, Moving
from ganexp.schedules.stalled import Stalled

__all__ = [
    "Coefficient",
    "Coefficients",
    "Cosine",
    "Ending",
    "Linear",
    "Moving",
    "OptimizerSetting",
    "Schedule",
    "Setting",
    "Stalled",
]
