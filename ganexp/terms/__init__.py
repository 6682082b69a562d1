"""Further terms of G's objective besides the loss, and their weights."""

from ganexp.terms.balance import ADVERSARIAL, Balance, LastLayer, Normalize, Output
from ganexp.terms.base import Generated, Term
from ganexp.terms.cycle import Cycle, Identity
from ganexp.terms.features import FeatureMatching, Perceptual
from ganexp.terms.own import KL, Commitment
from ganexp.terms.pixels import L1, L2
from ganexp.terms.transport import Transport

__all__ = [
    "ADVERSARIAL",
    "KL",
    "L1",
    "L2",
    "Balance",
    "Commitment",
    "Cycle",
    "FeatureMatching",
    "Generated",
    "Identity",
    "LastLayer",
    "Normalize",
    "Output",
    "Perceptual",
    "Term",
    "Transport",
]
