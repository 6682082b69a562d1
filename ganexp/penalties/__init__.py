"""Penalties on the discriminator and constraints on its weights: the terms that see more than scores, one per file."""

from ganexp.penalties.base import Discriminator, NoPenalty, Penalty
from ganexp.penalties.gradient_penalty import GradientPenalty
from ganexp.penalties.weight_clipping import WeightClipping

__all__ = ["Discriminator", "GradientPenalty", "NoPenalty", "Penalty", "WeightClipping"]
