"""What other update rules would take instead: ganexp's own strategies, counted on the loop's own networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle

import torch

from ganexp.instruments.counting import LiveActivations, operations, weights_of
from ganexp.losses import Minimax
from ganexp.strategies import by_name
from ganexp.watching.again import again, unfit
from ganexp.watching.events import Event
from ganexp.watching.iterations import Story
from ganexp.watching.recorder import Recorder
from ganexp.watching.rule import Rule

ALTERNATIVES = ("detach", "joint", "one_stage")


@dataclass
class Instead:
    """What an iteration takes by a strategy.

    Args:
        strategy: Its name.
        operations: Operations of products and convolutions.
        activations: Bytes that autograd keeps for backward passes at the peak, weights excepted.
    """

    strategy: str
    operations: int
    activations: int


def instead(recorder: Recorder, story: Story, events: Sequence[Event], rule: Rule) -> tuple[list[Instead], str]:
    """Return what strategies take for as many updates as an iteration makes, or in words why that is not known."""
    updates = story.updates(events)
    why = unfit(recorder, story, updates) or ("" if any(one.fake for one in updates) else "D sees no fakes")
    if why:
        return [], why
    found, enough = [], 3 * (rule.d_steps + rule.g_steps)
    for name, strategy in ((name, by_name()[name]) for name in ALTERNATIVES):
        try:
            with torch.random.fork_rng(), torch.enable_grad():  # networks may draw random numbers
                gan, reals = again(recorder, story, updates, Minimax(), plain=True)
                gan.drawn, gan.beside = enough * gan.drawn, enough * gan.beside
                iteration = partial(strategy, gan, cycle(reals), d_steps=rule.d_steps, g_steps=rule.g_steps)
                iteration()  # the first one may try what later ones take for granted
                count = operations(iteration)  # which keeps some activations longer
                with LiveActivations(weights_of(gan.generator, gan.discriminator)) as kept:
                    iteration()
        except Exception as error:  # anything may be in a foreign network
            return [], f"its networks do not run again ({type(error).__name__})"
        found.append(Instead(name, count, kept.peak))
    return found, ""
