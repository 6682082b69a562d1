"""Update strategies: one training iteration each, as a function of the GAN and an endless iterator of real batches.

The contract is one signature, `strategy(gan, reals, *, d_steps, g_steps)`; one with settings or state is an object that
is called so. A strategy is written in the verbs of `ganexp.gan.GAN` and touches nothing else. Lines that two strategies
share are repeated on purpose: what differs between two algorithms can be read as a diff.

It may declare as attributes: `differentiates_gradients`, which compiled networks cannot; `refuse(discriminator, loss, x)`,
which raises a ValueError for a discriminator or a loss that it is not exact for; `keeps_count`, whether a state that it has
is on the host, so that iterations cannot be recorded as CUDA graphs; `learns_through_d_loss`, that G's gradient passes
through D's objective on the fakes at hand, so that D cannot be shown others; and `g_loss(gan, x, fake)`, G's objective where it
is not that of `GAN`, for an update of G alone.

A wrapper is a strategy around a strategy: see `ganexp.wrappers.base`.
"""

from ganexp.strategies.competitive import Competitive
from ganexp.strategies.consensus import Consensus
from ganexp.strategies.detach import detach
from ganexp.strategies.extragradient import extragradient
from ganexp.strategies.g_first import g_first
from ganexp.strategies.g_first_resample import g_first_resample
from ganexp.strategies.joint import joint
from ganexp.strategies.one_stage import one_stage
from ganexp.strategies.past_extragradient import PastExtragradient
from ganexp.strategies.resample import resample
from ganexp.strategies.retain_graph import retain_graph
from ganexp.strategies.reuse_z import reuse_z
from ganexp.strategies.symplectic import Symplectic
from ganexp.strategies.unrolled import Unrolled

__all__ = [
    "Competitive",
    "Consensus",
    "PastExtragradient",
    "Symplectic",
    "Unrolled",
    "detach",
    "extragradient",
    "g_first",
    "g_first_resample",
    "joint",
    "one_stage",
    "resample",
    "retain_graph",
    "reuse_z",
]
