"""Penalties on the discriminator and constraints on its weights: the terms that see more than scores."""

from ganexp.penalties.base import Discriminator, NoPenalty, Penalty
from ganexp.penalties.gradient_penalty import DivergencePenalty, GradientPenalty, LipschitzPenalty
from ganexp.penalties.lazy import Lazy
from ganexp.penalties.one_centred import Dragan, OneCentred
from ganexp.penalties.sum import Sum, total
from ganexp.penalties.weight_clipping import WeightClipping
from ganexp.penalties.weights import Orthogonal, Spectral
from ganexp.penalties.zero_centred import R1, R1R2, R2

__all__ = [
    "R1",
    "R1R2",
    "R2",
    "Discriminator",
    "DivergencePenalty",
    "Dragan",
    "GradientPenalty",
    "Lazy",
    "LipschitzPenalty",
    "NoPenalty",
    "OneCentred",
    "Orthogonal",
    "Penalty",
    "Spectral",
    "Sum",
    "WeightClipping",
    "total",
]
