"""A penalty that keeps D's scores of real samples near its past scores of generated ones, and vice versa."""

from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Lt
from torch import Tensor
from torch.nn.functional import relu

from ganexp.batch import Batch, Discriminator
from ganexp.facts import Facts, Misfit
from ganexp.penalties.base import Penalty, Seen
from ganexp.ranges import checked


class LeCam(Penalty):
    """weight · (mean max(0, D(x) − α_F)² + mean max(0, α_R − D(G(z)))²) (Tseng et al. 2021, equation 7).

    α_R and α_F are moving averages of D's scores of real and of generated samples, over this update and those before it, and
    are constants for the gradient. The scores are those of the loss, so D runs no further pass.

    Departures: as in the authors' code, the squares are one-sided: a real score below α_F, or a generated one above α_R, costs
    nothing, unlike in the equation; as in their code for StyleGAN2, the averages are corrected for their start at 0 (divided by
    1 − decayᵗ), so the penalty needs no delay.

    Args:
        weight: The paper's λ; 0.3 for BigGAN on CIFAR-10.
        decay: Decay of the moving averages per update of D.
    """

    reads_scores = True

    on_device: ClassVar = {"weight": None, "decay": torch.float64}

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 0.3, decay: Annotated[float, Ge(0), Lt(1)] = 0.99) -> None:
        self.weight = weight
        self.decay = decay

    def check(self, run: Facts) -> None:
        super().check(run)
        if run.loss.low_is_real:
            raise Misfit("holds down scores that are high for real samples, and with this loss they are low", penalty=[])

    def begin(self, seed: int, device: torch.device) -> None:
        self._sums = torch.zeros(2, dtype=torch.float64, device=device)
        self._share = torch.zeros((), dtype=torch.float64, device=device)
        """The total weight of the updates in the sums: 1 − decayᵗ after t updates."""

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor:
        """Return the unweighted term, a scalar, for this process's share of the scores."""
        real, fakes = seen.real_scores, seen.fake_scores
        sums, share = self._moved(*(self.processes.gather(scores.detach()) for scores in (real, fakes)))
        of_real, of_fake = (sums / share).to(real.dtype)
        return relu(real - of_fake).square().mean() + relu(of_real - fakes).square().mean()

    @torch.no_grad()
    def advance(self, real_scores: Tensor, fake_scores: Tensor) -> None:
        sums, share = self._moved(real_scores, fake_scores)
        self._sums.copy_(sums)
        self._share.copy_(share)

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self._sums, "share": self._share}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._sums.copy_(state["sums"])
        self._share.copy_(state["share"])

    def _moved(self, real: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
        """Return the sums and their total weight after one more update."""
        now = torch.stack([real.mean(), fake.mean()]).to(self._sums.dtype)
        return torch.lerp(now, self._sums, self.decay), 1 - self.decay * (1 - self._share)
