"""Learning rates over a run: the contract is in base.py, what moves them in moving.py."""

from ganexp.schedules.base import Schedule
from ganexp.schedules.cosine import Cosine
from ganexp.schedules.linear import Linear
from ganexp.schedules.moving import Moving
from ganexp.schedules.stalled import Stalled

__all__ = ["Cosine", "Linear", "Moving", "Schedule", "Stalled"]
