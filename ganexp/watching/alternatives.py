"""Counts the operations and activations of ganexp's strategies on copies of a loop's networks, to compare with the loop's."""

from dataclasses import dataclass
from functools import partial
from itertools import cycle

import torch

from ganexp.instruments.counting import LiveActivations, operations, weights_of
from ganexp.losses import Minimax
from ganexp.strategies import by_name
from ganexp.watching.isolation import NotRun, refuse_late
from ganexp.watching.replay_gan import KeptTurns, replay_gan
from ganexp.watching.rule import Rule

ALTERNATIVES = ("detach", "joint", "one_stage")


@dataclass
class AlternativeCost:
    """The cost of an iteration of another strategy."""

    strategy: str
    operations: int  # of matrix products and convolutions
    activations: int  # bytes that autograd keeps for backward passes at the peak, without weights


def alternative_costs(turns: KeptTurns, rule: Rule, until: float) -> tuple[list[AlternativeCost], str]:
    """Return the costs of strategies with as many updates as a turn of the loop, and why others have none.

    No strategy is begun after the time `until`, of `time.monotonic`.
    """
    alternatives, refusals, repeats = [], [], 3 * (rule.d_steps + rule.g_steps)
    for name in ALTERNATIVES:
        try:
            refuse_late(until)
            with torch.enable_grad():
                gan, reals = replay_gan(turns, Minimax(), plain=True, repeats=repeats)
                iteration = partial(by_name()[name], gan, cycle(reals), d_steps=rule.d_steps, g_steps=rule.g_steps)
                iteration()  # the first iteration may include checks that later ones skip
                count = operations(iteration)  # counting keeps some activations longer, so these are counted by themselves
                with LiveActivations(weights_of(gan.generator, gan.discriminator)) as kept:
                    iteration()
        except Exception as error:  # anything may be in a foreign network
            late = isinstance(error, NotRun)
            refusals.append(f"{name}: {error}" if late else f"{name}: its networks do not run again ({type(error).__name__})")
            continue
        alternatives.append(AlternativeCost(name, count, kept.peak))
    return alternatives, "; ".join(refusals)
