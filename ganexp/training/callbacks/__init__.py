"""Callbacks: they observe a run and change nothing."""

from ganexp.training.callbacks.diagnostics import Diagnostics
from ganexp.training.callbacks.dynamics import Dynamics
from ganexp.training.callbacks.evaluation import Evaluation
from ganexp.training.callbacks.measures import Measures
from ganexp.training.callbacks.samples import Samples

__all__ = ["Diagnostics", "Dynamics", "Evaluation", "Measures", "Samples"]
