"""Update strategies: each performs one training iteration, on an endless iterator of real batches.

A strategy is a function, `strategy(gan, reals, *, d_steps, g_steps)`, or, with settings or a state, a `Strategy`. It is written
in the verbs of `ganexp.gan.Game` and touches nothing else. Its properties are declared by attributes of the class, or by
`declared` around a function. A strategy that moves both networks at once defines only that update;
`ganexp.strategies.simultaneous` handles d_steps ≠ g_steps. Other lines that two strategies share are repeated on purpose, so
that the difference between two algorithms can be read as a diff.

A wrapper is a strategy around a strategy: see `ganexp.wrappers.base`.
"""

from typing import Any

from ganexp.strategies.alex_gda import AlexGDA
from ganexp.strategies.base import Strategy, as_strategy, declared
from ganexp.strategies.competitive import Competitive
from ganexp.strategies.consensus import Consensus
from ganexp.strategies.detach import detach
from ganexp.strategies.drift import Drift
from ganexp.strategies.extragradient import Extragradient
from ganexp.strategies.follow_the_ridge import FollowTheRidge
from ganexp.strategies.g_first import g_first
from ganexp.strategies.g_first_resample import g_first_resample
from ganexp.strategies.g_first_reuse_z import g_first_reuse_z
from ganexp.strategies.hamiltonian import Hamiltonian
from ganexp.strategies.jare import Jare
from ganexp.strategies.joint import joint
from ganexp.strategies.lead import Lead
from ganexp.strategies.one_stage import OneStage
from ganexp.strategies.past_extragradient import PastExtragradient
from ganexp.strategies.resample import resample
from ganexp.strategies.retain_graph import retain_graph
from ganexp.strategies.reuse_z import reuse_z
from ganexp.strategies.runge_kutta import RungeKutta
from ganexp.strategies.simultaneous import Simultaneous
from ganexp.strategies.symplectic import Symplectic
from ganexp.strategies.unrolled import Unrolled

__all__ = [
    "AlexGDA",
    "Competitive",
    "Consensus",
    "Drift",
    "Extragradient",
    "FollowTheRidge",
    "Hamiltonian",
    "Jare",
    "Lead",
    "OneStage",
    "PastExtragradient",
    "RungeKutta",
    "Simultaneous",
    "Strategy",
    "Symplectic",
    "Unrolled",
    "declared",
    "detach",
    "g_first",
    "g_first_resample",
    "g_first_reuse_z",
    "joint",
    "resample",
    "retain_graph",
    "reuse_z",
]


def by_name() -> dict[str, Strategy]:
    """Return every strategy with its default settings by its name, which is that of its file."""
    parts: list[Any] = [globals()[name] for name in __all__ if name not in ("Strategy", "Simultaneous", "declared")]
    return {part.__module__.rpartition(".")[2]: as_strategy(part() if isinstance(part, type) else part) for part in parts}
