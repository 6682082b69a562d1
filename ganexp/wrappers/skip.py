"""A wrapper that leaves out one network's updates in random iterations."""

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import torch
from annotated_types import Ge, Lt

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.streams import stream
from ganexp.wrappers.base import Counting


class Skip(Counting):
    """D, or G, is not updated in an iteration with a probability (Défossez et al. 2023, EnCodec; ESPnet's GAN trainer).

    The draw depends on the seed and the iteration alone, and is the same in all processes. The other network moves by the
    objective of the strategy inside, with the wrappers inside. In the first iteration both networks move. Departure: these
    projects decide for each batch, and here an iteration may have several (`d_steps`). `Balanced` lets D rest while its
    accuracy is high.

    Args:
        probability: Probability that the network is not updated.
        of: The network.
    """

    constant_steps = False

    @checked
    def __init__(
        self, strategy: Callable[..., None], *, probability: Annotated[float, Ge(0), Lt(1)] = 1 / 3, of: Literal["d", "g"] = "d"
    ) -> None:
        super().__init__(strategy)
        self.probability = probability
        self.of = of

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        """Run one iteration; if an outer wrapper leaves out the other network, this one moves."""
        counts, iteration = {"d_steps": d_steps, "g_steps": g_steps}, self.passed["iterations"]
        drawn = torch.rand((), generator=stream(gan.seed, "skip", index=iteration)).item()
        if iteration and d_steps and g_steps and drawn < self.probability:
            counts[f"{self.of}_steps"] = 0
        super().__call__(gan, reals, **counts)
        self.passed["iterations"] += 1
