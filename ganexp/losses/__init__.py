"""Losses: one family per file, each a pair of objectives on scores."""

from ganexp.losses.acgan import ACGAN
from ganexp.losses.base import Loss
from ganexp.losses.began import BEGAN
from ganexp.losses.ebgan import EBGAN
from ganexp.losses.hinge import Hinge
from ganexp.losses.logistic import Minimax, NonSaturating
from ganexp.losses.lsgan import LSGAN
from ganexp.losses.relativistic import RaGAN, RpGAN
from ganexp.losses.softmaxgan import SoftmaxGAN
from ganexp.losses.wgan import WGAN

__all__ = [
    "ACGAN",
    "BEGAN",
    "EBGAN",
    "LSGAN",
    "WGAN",
    "Hinge",
    "Loss",
    "Minimax",
    "NonSaturating",
    "RaGAN",
    "RpGAN",
    "SoftmaxGAN",
]
