"""Penalties on the discriminator and constraints on its weights: the terms that see more than scores.

A penalty is one more term of D's loss, computed from the discriminator and the images; a constraint acts on D's
weights after each of its steps. Both share one contract with do-nothing defaults, so that any of them can be
combined with any loss on logits.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ganexp.streams import stream

Discriminator = Callable[[Tensor], Tensor]
"""A module, or any function from images to scores, such as a module with other weights."""


class NoPenalty:
    """The contract, and the member that does nothing."""

    needs_logits = False
    """Whether the penalty has a meaning only for a discriminator that returns logits."""

    differentiates_gradients = False
    """Whether its own gradient is one of a gradient, which compiled networks cannot give."""

    seed = 0
    """Seed of the random stream that a penalty may draw from; set before the first call."""

    generator: torch.Generator | None = None
    """The random stream that it draws from, if it does."""

    def __call__(self, discriminator: Discriminator, x: Tensor, fake: Tensor) -> Tensor | None:
        """Return the scalar to add to D's loss, or None for nothing; `fake` carries no graph."""
        return None

    def constrain(self, discriminator: nn.Module) -> None:
        """Put D's weights back where they are allowed to be; called after each update of D."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor], device: torch.device) -> None:
        """Go on from what a checkpoint held."""


class WeightClipping(NoPenalty):
    """Clip every weight of D that is trained to [-bound, bound] after each D step (Arjovsky et al. 2017, algorithm 1)."""

    def __init__(self, *, bound: float = 0.01) -> None:
        if not 0 < bound < float("inf"):
            raise ValueError(f"bound must be positive and finite, not {bound}")
        self.bound = bound

    @torch.no_grad()
    def constrain(self, discriminator: nn.Module) -> None:
        weights: list[Tensor] = [p for p in discriminator.parameters() if p.requires_grad]
        torch._foreach_clamp_min_(weights, -self.bound)
        torch._foreach_clamp_max_(weights, self.bound)


class GradientPenalty(NoPenalty):
    """weight · mean (‖∇D(x̂)‖₂ − 1)², x̂ uniformly between paired real and generated images (Gulrajani et al. 2017).

    The gradient of one image's score is meant to be that image's alone, so D should have no batch norm.
    """

    needs_logits = True
    differentiates_gradients = True

    def __init__(self, *, weight: float = 10.0) -> None:
        if not 0 <= weight < float("inf"):
            raise ValueError(f"weight must be finite and not negative, not {weight}")
        self.weight = weight

    def state_dict(self) -> dict[str, Tensor]:
        return {"generator": self.generator.get_state()} if self.generator else {}

    def load_state_dict(self, state: dict[str, Tensor], device: torch.device) -> None:
        if state:
            self.generator = stream(self.seed, "gradient penalty", device)
            self.generator.set_state(state["generator"])

    def __call__(self, discriminator: Discriminator, x: Tensor, fake: Tensor) -> Tensor:
        if x.shape != fake.shape:
            raise ValueError(f"the gradient penalty pairs real with fake, but their shapes are {x.shape} and {fake.shape}")
        if self.generator is None or self.generator.device != x.device:
            self.generator = stream(self.seed, "gradient penalty", x.device)
        share = torch.empty(len(x), *[1] * (x.dim() - 1), device=x.device, dtype=x.dtype)
        between = torch.lerp(fake, x, share.uniform_(generator=self.generator)).requires_grad_()
        (slope,) = torch.autograd.grad(discriminator(between).sum(), between, create_graph=True)
        return self.weight * (torch.linalg.vector_norm(slope.flatten(1), dim=1) - 1).square().mean()
