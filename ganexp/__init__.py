"""ganexp: a laboratory for the update strategies of GAN training."""

from ganexp.build import build
from ganexp.composing import compose
from ganexp.gan import GAN
from ganexp.loading import load
from ganexp.prior import Prior
from ganexp.training import Trainer

__all__ = ["GAN", "Prior", "Trainer", "build", "compose", "load"]
