"""Penalties on both networks, and constraints on D's weights."""

from ganexp.batch import Discriminator, read
from ganexp.penalties.approximate import ApproximateR1, ApproximateR1R2, ApproximateR2
from ganexp.penalties.base import NoPenalty, Penalty, Seen
from ganexp.penalties.centring import Centring
from ganexp.penalties.consistency import BalancedConsistency, Consistency, LatentConsistency
from ganexp.penalties.gradients import R1, R1R2, R2, DivergencePenalty, Dragan, GradientPenalty, LipschitzPenalty, OneCentred
from ganexp.penalties.lazy import Lazy
from ganexp.penalties.lecam import LeCam
from ganexp.penalties.path_length import PathLength
from ganexp.penalties.sum import Sum, total
from ganexp.penalties.weights import Orthogonal, Spectral, WeightClipping

__all__ = [
    "R1",
    "R1R2",
    "R2",
    "ApproximateR1",
    "ApproximateR1R2",
    "ApproximateR2",
    "BalancedConsistency",
    "Centring",
    "Consistency",
    "Discriminator",
    "DivergencePenalty",
    "Dragan",
    "GradientPenalty",
    "LatentConsistency",
    "Lazy",
    "LeCam",
    "LipschitzPenalty",
    "NoPenalty",
    "OneCentred",
    "Orthogonal",
    "PathLength",
    "Penalty",
    "Seen",
    "Spectral",
    "Sum",
    "WeightClipping",
    "read",
    "total",
]
