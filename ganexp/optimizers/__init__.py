"""Optimisers: functions or classes that take parameters and checked settings."""

from ganexp.optimizers.complex_momentum import ComplexMomentum
from ganexp.optimizers.muon import Muon
from ganexp.optimizers.negative_momentum import NegativeMomentum
from ganexp.optimizers.normalized_sgd import NormalizedSGD
from ganexp.optimizers.of_torch import adam, adamw, rmsprop, sgd
from ganexp.optimizers.optimistic_adam import OptimisticAdam
from ganexp.optimizers.schedule_free import ScheduleFree

__all__ = [
    "ComplexMomentum",
    "Muon",
    "NegativeMomentum",
    "NormalizedSGD",
    "OptimisticAdam",
    "ScheduleFree",
    "adam",
    "adamw",
    "rmsprop",
    "sgd",
]
