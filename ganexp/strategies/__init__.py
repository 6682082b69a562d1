"""Update strategies: one training iteration each, as a function of the GAN and an endless iterator of real batches.

The contract is one signature, `strategy(gan, reals, *, d_steps, g_steps)`. A strategy is written in the verbs of
`ganexp.gan.GAN` and touches nothing else. Lines that two strategies share are repeated on purpose: what differs
between two algorithms can be read as a diff.
"""

from ganexp.strategies.detach import detach
from ganexp.strategies.g_first import g_first
from ganexp.strategies.g_first_resample import g_first_resample
from ganexp.strategies.joint import joint
from ganexp.strategies.resample import resample
from ganexp.strategies.retain_graph import retain_graph
from ganexp.strategies.reuse_z import reuse_z

__all__ = ["detach", "g_first", "g_first_resample", "joint", "resample", "retain_graph", "reuse_z"]
