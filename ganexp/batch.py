"""What flows through a GAN: batches, the objectives formed on them, and their gradients."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
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
        source: For samples straight from G, what G was given, such as latents `(B·pack, latent_dim)`; for real samples, their
            own source, `(B, …)`, in data that have sources.
        target: What G should make of the source of each sample, `(B, …)`, where that is known; it travels with the source.
        own: For samples straight from G, the terms that G itself computed with them, `(B,)` each, with their graph.
    """

    values: Tensor
    conditions: tuple[Tensor, ...] = ()
    source: Tensor | None = None
    target: Tensor | None = None
    own: tuple[Tensor, ...] = ()

    @classmethod
    def of(cls, values: "Batch | Tensor") -> "Batch":
        """Return a batch as it is, and a plain tensor as a batch without conditions."""
        return values if isinstance(values, Batch) else cls(values)

    def __len__(self) -> int:
        return self.values.shape[0]  # torch's len is written in Python, and this is asked ten times an iteration

    def detach(self) -> "Batch":
        """Return the same batch, cut off from its graph."""
        return Batch(self.values.detach(), self.conditions, self.source, self.target)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """Return the batch with each of its tensors replaced by a function of it."""
        source = None if self.source is None else change(self.source)
        target = None if self.target is None else change(self.target)
        return Batch(change(self.values), tuple(map(change, self.conditions)), source, target, tuple(map(change, self.own)))

    def tensors(self) -> list[Tensor]:
        """Return all of its tensors, in the order of the fields."""
        held = (getattr(self, attribute.name) for attribute in fields(self))
        return [tensor for part in held for tensor in (part if isinstance(part, tuple) else (part,)) if tensor is not None]

    def split(self, size: int) -> list["Batch"]:
        """Return the batch in parts of at most `size`."""
        count = len(self)

        def part(start: int) -> "Batch":  # a pack of samples has several sources
            return self.map(lambda tensor: tensor[start * len(tensor) // count : (start + size) * len(tensor) // count])

        return [part(start) for start in range(0, count, size)]


def scores_of(outputs: Tensor) -> Tensor:
    """Return the scores from a discriminator's output: `(B,)`, or `(B, S)` where it scores S places of each sample.

    The output is `(B,)`, `(B, 1 + k)` with k further numbers behind each score, or `(B, 1, S)`.
    """
    return outputs if outputs.dim() == 1 else outputs[:, 0]


def further_of(outputs: Tensor) -> Tensor:
    """Return the further numbers, `(B, k)`, that a discriminator returned behind its scores."""
    return outputs[:, 1:]


def flat(outputs: Tensor) -> Tensor:
    """Return what a discriminator returned, with the places of a map of scores in one dimension: `(B, 1, S)`."""
    return outputs.flatten(2) if outputs.dim() > 3 else outputs


def per_sample(outputs: Tensor) -> Tensor:
    """Return one score for each sample, `(B,)`: the mean over its places, where a discriminator scores places."""
    if outputs.dim() == 1:
        return outputs
    scores = scores_of(flat(outputs))
    return scores if scores.dim() == 1 else scores.mean(1)


Gradients = tuple[Tensor | None, ...]
"""One gradient per trainable parameter of a network, None where the objective does not depend on it."""


@dataclass(slots=True)
class Objective:
    """What one network minimises, formed at one point: nothing has been recorded or moved yet.

    Args:
        loss: A scalar, without the penalty.
        real_scores: `(B,)`, `(B, 1 + k)` where the loss reads further numbers, `(B, 1, S)` where D scores S places of each
            sample, or None if it did not look at real samples.
        fake_scores: `(B,)`, `(B, 1 + k)` or `(B, 1, S)` likewise.
        penalty: A further scalar, if there is one.
        terms: Of G's: the weighted sum of the terms beside the loss, a scalar, if there are any.
        values: Of G's: each term's own value, without its weight and its graph, by name, for the log.
    """

    loss: Tensor
    real_scores: Tensor | None = None
    fake_scores: Tensor | None = None
    penalty: Tensor | None = None
    terms: Tensor | None = None
    values: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def further(self) -> Tensor | None:
        """The scalar that is added to the loss, if there is one: terms and penalty."""
        if self.terms is None or self.penalty is None:
            return self.penalty if self.terms is None else self.terms
        return self.terms + self.penalty

    @property
    def value(self) -> Tensor:
        """The scalar that is differentiated."""
        further = self.further
        return self.loss if further is None else self.loss + further
