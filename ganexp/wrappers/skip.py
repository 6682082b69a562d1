"""A wrapper in which one network rests in random iterations."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Lt

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.streams import stream
from ganexp.wrappers.base import Remembering


class Skip(Remembering):
    """D, or G, rests in an iteration with a probability (Défossez et al. 2022, EnCodec; ESPnet's GAN trainer).

    Each iteration's number decides by a stream of its own, alike in all processes. The other network moves by the objective of
    the strategy inside, with the wrappers inside. The first iteration has both. Departure: the projects decide for each batch,
    and here an iteration may have several (`d_steps`). For a D that rests while its accuracy is high, see `Balanced`.

    Args:
        strategy: What runs inside.
        probability: With which the network rests.
        of: Which network.
    """

    constant_steps = False

    @checked
    def __init__(
        self, strategy: Callable[..., None], *, probability: Annotated[float, Ge(0), Lt(1)] = 1 / 3, of: Literal["d", "g"] = "d"
    ) -> None:
        super().__init__(strategy)
        self.probability = probability
        self.of = of
        self.iterations = 0

    def __call__(self, gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
        """Run one iteration; where an outer wrapper lets the other network rest, this one moves."""
        counts = {"d_steps": d_steps, "g_steps": g_steps}
        drawn = torch.rand((), generator=stream(gan.seed, "skip", index=self.iterations)).item()
        if self.iterations and d_steps and g_steps and drawn < self.probability:
            counts[f"{self.of}_steps"] = 0
        super().__call__(gan, reals, **counts)
        self.iterations += 1

    def remembered(self) -> dict[str, Any]:
        return {"iterations": self.iterations}

    def remember(self, state: dict[str, Any]) -> None:
        self.iterations = state["iterations"]
