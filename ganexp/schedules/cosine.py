"""Half a cosine, after an optional warm-up."""

import math
from typing import Annotated

from annotated_types import Ge, Le

from ganexp.ranges import checked
from ganexp.schedules.moving import Ending, Of


class Cosine(Ending):
    """Half a cosine from the rate down to `final` times it at `end` (Loshchilov & Hutter 2017, equation 5, no restarts).

    In the first `warm_up` iterations the rate rises in equal steps, the first of which is not 0. The cosine begins after
    them: `torch.optim.lr_scheduler.CosineAnnealingLR` with T_max = end − warm_up and eta_min = final × rate.

    Args:
        iterations: How many the run has.
        warm_up: Iterations in which the rate rises; Goyal et al. 2017, section 2.2.
        end: Where the cosine ends; by default with the run.
        final: The fraction of the rate that remains.
        of: Whose rates are moved.
    """

    @checked
    def __init__(
        self,
        iterations: int,
        *,
        warm_up: Annotated[int, Ge(0)] = 0,
        end: Annotated[int, Ge(1)] | None = None,
        final: Annotated[float, Ge(0), Le(1)] = 0.0,
        of: Of = "both",
    ) -> None:
        super().__init__(iterations, end=end, final=final, of=of)
        self.refuse_at_end("warm_up", warm_up)
        self.warm_up = warm_up

    def between(self, t: int, start: float, final: float) -> float:
        if t < self.warm_up:
            return start * ((t + 1) / self.warm_up)
        if t >= self.end:
            return final
        part = (t - self.warm_up) / (self.end - self.warm_up)
        return final + (start - final) * (1 + math.cos(math.pi * part)) / 2
