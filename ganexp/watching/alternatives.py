"""Counts the operations and activations of ganexp's strategies on copies of a loop's networks, to compare with the loop's."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import torch

from ganexp.instruments.counting import LiveActivations, operations, weights_of
from ganexp.losses import Minimax
from ganexp.strategies import by_name
from ganexp.watching.events import Event
from ganexp.watching.recorder import Recorder
from ganexp.watching.replay_gan import replay_gan, why_not_replayable
from ganexp.watching.rule import Rule
from ganexp.watching.trace import Trace

ALTERNATIVES = ("detach", "joint", "one_stage")


@dataclass
class AlternativeCost:
    """The cost of an iteration of another strategy.

    Args:
        strategy: Its name.
        operations: Operations of matrix products and convolutions.
        activations: Bytes that autograd keeps for backward passes at the peak, without weights.
    """

    strategy: str
    operations: int
    activations: int


def alternative_costs(
    recorder: Recorder, trace: Trace, events: Sequence[Event], rule: Rule
) -> tuple[list[AlternativeCost], str]:
    """Return the costs of strategies with as many updates as an iteration of the loop, or the reason why there are none."""
    updates = trace.updates(events)
    why = why_not_replayable(recorder, trace, updates) or ("" if any(update.fake for update in updates) else "D sees no fakes")
    if why:
        return [], why
    alternatives, repeats = [], 3 * (rule.d_steps + rule.g_steps)
    for name, strategy in ((name, by_name()[name]) for name in ALTERNATIVES):
        try:
            with torch.random.fork_rng(), torch.enable_grad():  # networks may draw random numbers
                gan, reals = replay_gan(recorder, trace, updates, Minimax(), plain=True)
                gan.generations, gan.conditions = repeats * gan.generations, repeats * gan.conditions
                iteration = partial(strategy, gan, cycle(reals), d_steps=rule.d_steps, g_steps=rule.g_steps)
                iteration()  # the first iteration may include checks that later ones skip
                count = operations(iteration)  # counting keeps some activations longer, so these are counted by themselves
                with LiveActivations(weights_of(gan.generator, gan.discriminator)) as kept:
                    iteration()
        except Exception as error:  # anything may be in a foreign network
            return [], f"its networks do not run again ({type(error).__name__})"
        alternatives.append(AlternativeCost(name, count, kept.peak))
    return alternatives, ""
