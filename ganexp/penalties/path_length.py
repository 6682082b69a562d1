"""Path length regularisation: steps of equal length in style space should change images by equal lengths."""

import math
from collections.abc import Callable, Hashable
from typing import Annotated, Any, ClassVar, Protocol, cast

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.facts import Facts, Misfit
from ganexp.penalties.base import evenly_spread
from ganexp.penalties.lazy import Lazy
from ganexp.ranges import checked
from ganexp.streams import stream


class Styled(Protocol):
    """A generator that maps latents to styles, and styles to samples."""

    def styles(self, z: Tensor, *labels: Tensor) -> Tensor:
        """Map latents, under labels, to the styles of every layer, `(B, layers, n)`."""

    def synthesis(self, styles: Tensor) -> Tensor:
        """Map styles to images."""


class PathLength(Lazy):
    """weight · mean (‖Jᵀy‖ − a)², added to G's loss (Karras et al. 2020, StyleGAN2, equation 4).

    J is the derivative of an image with respect to its styles, y is normal noise divided by the root of the number of pixels,
    ‖·‖ is the root of the mean over layers of squared lengths, and a is the moving average of these norms. Every k-th update
    of G, beginning with the first, has the penalty, with k times the weight.

    Departures: the latents are some of those of G's update, whose images are generated again; the term is added to G's loss,
    whereas the authors take a separate step; a is a constant for the gradient. The latents are spread evenly over the batch, so
    that several processes use the same latents as one process.

    Args:
        weight: The weight without the factor k; 2 in the authors' code.
        every: k, in updates of G.
        share: Share of a batch's latents that is used.
        decay: Decay of the moving average per update with the penalty.
    """

    differentiates_gradients = True

    on_device: ClassVar = {"weight": None, "decay": torch.float64}

    @checked
    def __init__(
        self,
        *,
        weight: Annotated[float, Ge(0)] = 2.0,
        every: Annotated[int, Ge(1)] = 4,
        share: Annotated[float, Ge(0)] = 0.5,
        decay: Annotated[float, Ge(0), Lt(1)] = 0.99,
    ) -> None:
        super().__init__(weight=weight, every=every)
        self.share = share
        self.decay = decay
        self._next: Tensor | None = None

    def check(self, run: Facts) -> None:
        super().check(run)
        if not run.styles:
            raise Misfit("looks at how samples move with their styles, and this generator has none", generator="stylegan2")

    def begin(self, seed: int, device: torch.device) -> None:
        self.rng = stream(seed, "path length", device)
        self.mean = torch.zeros((), dtype=torch.float64, device=device)

    def g_term(self, generator: nn.Module, fake: Batch, generate: Callable[[Batch], Batch]) -> Tensor | None:
        if self.passed["updates"] % self.every:
            return None
        if fake.source is None:
            raise ValueError("path lengths are those of G's own latents, and these fakes come without")
        count = max(1, min(round(self.share * len(fake.source)), len(fake.source)))
        spread = evenly_spread(count, len(fake.source), fake.source.device)
        selected = (tensor.index_select(0, spread) for tensor in (fake.source, *fake.conditions))
        lengths = self.lengths(cast(Styled, generator), *selected)
        self._next = torch.lerp(self.processes.gather(lengths.detach()).mean().to(self.mean), self.mean, self.decay)
        return self.every * self.weight * (lengths - self._next.to(lengths)).square().mean()

    def lengths(self, generator: Styled, z: Tensor, *labels: Tensor) -> Tensor:
        """Return the length of each latent's path, `(B,)`."""
        styles = generator.styles(z, *labels)
        images = generator.synthesis(styles)
        y = images.new_empty(self.processes.count * len(images), *images.shape[1:]).normal_(generator=self.rng)
        along = (images * self.processes.own(y)).sum() / math.sqrt(math.prod(images.shape[2:]))
        (moved,) = torch.autograd.grad(along, styles, create_graph=True)
        return moved.square().sum(2).mean(1).sqrt()

    def advance(self, real_scores: Tensor, fake_scores: Tensor) -> None:
        """Do nothing: updates of G are counted."""

    @torch.no_grad()
    def advance_g(self) -> None:
        if self._next is not None and self.passed["updates"] % self.every == 0:
            self.mean.copy_(self._next)
        self.passed["updates"] += 1

    def turn(self, d_steps: int, g_steps: int) -> Hashable:
        """Return the number of an iteration's updates before the first with the penalty; `g_steps + 1` if none has it."""
        return None if self.every == 1 else min(-self.passed["updates"] % self.every, g_steps + 1)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.mean.copy_(state["mean"])
