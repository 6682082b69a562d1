"""Watchers: they observe a run and change nothing."""

from ganexp.training.watching.contention import Contention
from ganexp.training.watching.evaluation import Evaluation, SharedEvaluation
from ganexp.training.watching.measures import Measures
from ganexp.training.watching.samples import Samples
from ganexp.training.watching.signs import Signs

__all__ = ["Contention", "Evaluation", "Measures", "Samples", "SharedEvaluation", "Signs"]
