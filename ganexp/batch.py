"""What flows through a GAN: batches, the objectives formed on them, and their gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

Discriminator = Callable[..., Tensor]
"""A module, or any function from samples and what they are conditioned on to scores, such as a module with other weights.

A module with other weights has a method `read(what)`, which returns what the function `what` reads in it with these weights.
"""


def read(discriminator: Discriminator, what: Callable[[nn.Module], Any]) -> Any:
    """Return what a function finds in D itself, which a strategy or an augmentation may hand to the penalty as a function.

    Raises:
        ValueError: The discriminator is a function without a method `read`.
    """
    if isinstance(discriminator, nn.Module):
        return what(discriminator)
    own: Any = getattr(discriminator, "read", None)
    if own is None:
        raise ValueError("a penalty on weights needs a discriminator that is a module, or has its method `read`")
    return own(what)


@dataclass(slots=True)
class Batch:
    """Samples or latents, together with what they are conditioned on. A network is called `net(values, *conditions)`.

    Args:
        values: `(B, …)`: images, points or latents.
        conditions: Class labels and the like, `(B, …)` each; empty for an unconditional GAN.
        latents: For samples straight from G, the latents that they were generated from, `(B·pack, latent_dim)`.
    """

    values: Tensor
    conditions: tuple[Tensor, ...] = ()
    latents: Tensor | None = None

    @classmethod
    def of(cls, values: "Batch | Tensor") -> "Batch":
        """Return a batch as it is, and a plain tensor as a batch without conditions."""
        return values if isinstance(values, Batch) else cls(values)

    def __len__(self) -> int:
        return len(self.values)

    def detach(self) -> "Batch":
        """Return the same batch, cut off from its graph."""
        return Batch(self.values.detach(), self.conditions, self.latents)

    def split(self, size: int) -> list["Batch"]:
        """Return the batch in parts of at most `size`."""
        parts = zip(self.values.split(size), *(one.split(size) for one in self.conditions), strict=True)
        return [Batch(values, tuple(conditions)) for values, *conditions in parts]


def scores_of(outputs: Tensor) -> Tensor:
    """Return the scores, `(B,)`, from a discriminator's output: scores alone, or `(B, 1 + k)` with k further numbers each."""
    return outputs if outputs.dim() == 1 else outputs[:, 0]


def further_of(outputs: Tensor) -> Tensor:
    """Return the further numbers, `(B, k)`, that a discriminator returned behind its scores."""
    return outputs[:, 1:]


Gradients = tuple[Tensor | None, ...]
"""One gradient per trainable parameter of a network, None where the objective does not depend on it."""


@dataclass(slots=True)
class Objective:
    """What one network minimises, formed at one point: nothing has been recorded or moved yet.

    Args:
        loss: A scalar, without the penalty.
        real_scores: `(B,)`, `(B, 1 + k)` where the loss reads further numbers, or None if it did not look at real samples.
        fake_scores: `(B,)`, or `(B, 1 + k)` likewise.
        penalty: A further scalar, if there is one.
    """

    loss: Tensor
    real_scores: Tensor | None
    fake_scores: Tensor
    penalty: Tensor | None = None

    @property
    def value(self) -> Tensor:
        """The scalar that is differentiated."""
        return self.loss if self.penalty is None else self.loss + self.penalty
