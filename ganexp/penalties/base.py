"""The contract of a penalty."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, Misfit, Part

Discriminator = Callable[..., Tensor]
"""A module, or any function from images and what they are conditioned on to scores, such as a module with other weights.

The latter has a method `read(what)`, which returns what a function of a module reads in it while it has the other weights.
"""

Demand = Literal["gradient norm 0", "gradient norm 1", "gradient norm up to 1", "small weights"]
"""What a penalty demands of the norm of D's gradient, or of its weights, where another could demand the contrary."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was computed for D's loss already, and where fakes come from.

    Args:
        real_scores, fake_scores: Of the samples that a penalty is given, `(B,)`, with their graph.
        generate: From latents, under their conditions, to samples as D scores them.
    """

    real_scores: Tensor
    fake_scores: Tensor
    generate: Callable[[Batch], Batch]


class Penalty(Part):
    """A further term of D's loss or of G's, or a constraint on D's weights.

    All have do-nothing defaults, so that any of them can be combined with any loss.
    """

    on_device: ClassVar = {"weight": None}

    weight: float | Tensor = 1.0
    """What the mean of the samples' values is multiplied by."""

    needs_logits = False
    """Whether the penalty has a meaning only for a discriminator that returns logits."""

    demands: frozenset[Demand] = frozenset()
    """What it demands of D: not every two demands can be met at once."""

    differentiates_gradients = False
    """Whether its own gradient is one of a gradient, which compiled networks cannot give."""

    reads_scores = False
    """Whether it looks at the scores that D's loss has seen, which depend on G as that loss does."""

    keeps_count = False
    """Whether it remembers on the host how many updates there were, so that iterations cannot be recorded as CUDA graphs."""

    rng: torch.Generator | None = None
    """The random stream that it draws from, if it does: numbers for the global batch, of which it takes its own share."""

    processes = Processes()
    """Those that train together."""

    def check(self, run: Facts) -> None:
        """Refuse a run that the penalty does not fit.

        Raises:
            Misfit: D's scores have no meaning for it, or compiled networks cannot be differentiated twice.
        """
        if self.needs_logits and run.scores not in ("logit", ""):
            raise Misfit(
                f"needs a discriminator that returns logit scores, and this one returns {run.scores} scores", penalty=[]
            )
        if self.differentiates_gradients and run.compiled:
            raise Misfit("differentiates gradients, which compiled networks cannot", compile=False)
        if self.needs_logits and run.batch_norm:
            run.warn("is meant for a discriminator without batch norm")

    def share_among(self, processes: Processes) -> None:
        """Take part with other processes; called once, by the GAN."""
        self.processes = processes

    def streams(self) -> list[torch.Generator]:
        """Return the random streams that it draws from."""
        return [] if self.rng is None else [self.rng]

    def begin(self, seed: int, device: torch.device) -> None:
        """Seed the random stream, if it has one; called once, by the GAN."""

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor | None:
        """Return one value per sample, `(B,)`, whose weighted mean is added to D's loss, or None for nothing.

        A penalty on D's weights returns a scalar. `fake` carries no graph.
        """
        return None

    def compared(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen) -> Tensor | None:
        """Return the same, of a penalty that also looks at the scores of D's loss, or at where fakes come from."""
        return self(discriminator, x, fake)

    def term(self, discriminator: Discriminator, x: Batch, fake: Batch, seen: Seen | None = None) -> Tensor | None:
        """Return the weighted mean, a scalar, or None for nothing; without `seen`, that of the samples alone."""
        x, fake = Batch.of(x), Batch.of(fake)
        values = self(discriminator, x, fake) if seen is None else self.compared(discriminator, x, fake, seen)
        return None if values is None else self.weight * values.mean()

    def g_term(self, generator: nn.Module, fake: Batch, generate: Callable[[Batch], Batch]) -> Tensor | None:
        """Return a further term of G's loss, a scalar, or None for nothing.

        Args:
            generator: The network.
            fake: What G's objective is formed on, with its graph, packed.
            generate: As in `Seen`.
        """
        return None

    def constrain(self, discriminator: nn.Module) -> None:
        """Put D's weights back where they are allowed to be; called after each update of D."""

    def advance(self, real_scores: Tensor, fake_scores: Tensor) -> None:
        """Move the penalty's own state, if it has one; called after each update of D, but not after a look ahead.

        Args:
            real_scores: Of the update, of the global batch, `(B,)`, without a graph.
            fake_scores: Likewise.
        """

    def advance_g(self) -> None:
        """Move the state of its term of G's loss, likewise after each update of G."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint."""
        return {} if self.rng is None else {"rng": self.rng.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""
        if self.rng is not None:
            self.rng.set_state(state["rng"])


class NoPenalty(Penalty):
    """D's loss as it is."""
