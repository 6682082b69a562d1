"""Linear decay."""

from typing import Annotated

from annotated_types import Ge, Le

from ganexp.ranges import checked
from ganexp.schedules.moving import Ending, Of


class Linear(Ending):
    """Constant up to iteration `begin`, then in a straight line to `final` times the rate at `end`.

    `torch.optim.lr_scheduler.LinearLR` from 1 to `final` over end − begin iterations, begun late. Used for GANs by
    Gulrajani et al. 2017, appendix F, among others (from the first iteration on, to 0).

    Args:
        iterations: How many the run has.
        begin: Iterations before the decay.
        end: Where it ends; by default with the run.
        final: The fraction of the rate that remains.
        of: Whose rates are moved.
    """

    @checked
    def __init__(
        self,
        iterations: int,
        *,
        begin: Annotated[int, Ge(0)] = 0,
        end: Annotated[int, Ge(1)] | None = None,
        final: Annotated[float, Ge(0), Le(1)] = 0.0,
        of: Of = "both",
    ) -> None:
        super().__init__(iterations, end=end, final=final, of=of)
        self.refuse_at_end("begin", begin)
        self.begins = begin

    def between(self, t: int, start: float, final: float) -> float:
        if t <= self.begins:
            return start
        return final if t >= self.end else start + (final - start) * (t - self.begins) / (self.end - self.begins)
