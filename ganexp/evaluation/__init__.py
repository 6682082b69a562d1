"""How good samples are: measures that compare a generated set with a real one, in the features of a network that is named.

A set is seen once, batch by batch, and what is kept of it (`parts.py`) does not grow without bound. A measure (`measures.py`)
is a function of what was kept of two sets; an `Evaluator` holds the real one, and the measures that were chosen.
"""

from ganexp.evaluation.classifier import Classifier
from ganexp.evaluation.comparison import Comparison
from ganexp.evaluation.evaluator import Evaluator, real_batches
from ganexp.evaluation.features import Exported, Features, Inception, PerChannel, Raw
from ganexp.evaluation.measures import MEASURES
from ganexp.evaluation.parts import EvaluationError

__all__ = [
    "MEASURES",
    "Classifier",
    "Comparison",
    "EvaluationError",
    "Evaluator",
    "Exported",
    "Features",
    "Inception",
    "PerChannel",
    "Raw",
    "real_batches",
]
