"""Wrappers: each is a strategy around a strategy; the contract is in `base.py`."""

from ganexp.wrappers.anchoring import Anchoring
from ganexp.wrappers.base import Wrapper
from ganexp.wrappers.latent_step import LatentStep
from ganexp.wrappers.lookahead import Lookahead
from ganexp.wrappers.loss_change import LossChange
from ganexp.wrappers.pretrain import Pretrain
from ganexp.wrappers.replay import Replay
from ganexp.wrappers.skip import Skip
from ganexp.wrappers.step_counts import Balanced, WarmUp
from ganexp.wrappers.topk import TopK

__all__ = [
    "Anchoring",
    "Balanced",
    "LatentStep",
    "Lookahead",
    "LossChange",
    "Pretrain",
    "Replay",
    "Skip",
    "TopK",
    "WarmUp",
    "Wrapper",
]
