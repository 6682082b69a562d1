"""Forward passes of networks: their precision, their parts, and the shapes of scores."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.batch import Batch, Discriminator, flat, read
from ganexp.gan.micro_batches import InParts, MicroBatches

KEEPS_RANGE = (
    *("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Select", "Slice", "AsStrided"),
    *("T", "Transpose", "Permute", "Alias", "Clone", "ToCopy", "Mean", "Cat", "Stack"),
)
"""Operations of autograd whose results lie within the range of their first input, as those do that end a discriminator."""


class NoScores(ValueError):
    """A discriminator returns something else than the scores that it is asked for."""


class Passes:
    """Runs networks on batches.

    Args:
        autocast: Run matrix products and convolutions in this narrower type; the output has the batch's own.
        accumulate: The number of parts in which a batch passes a network; a function that is not a module gets it whole.
        further: What a discriminator has to return after each score; empty for scores alone.
    """

    def __init__(self, autocast: torch.dtype | None = None, accumulate: int = 1, *, further: str = "") -> None:
        self.autocast = autocast
        self.parts = MicroBatches(accumulate)
        self.further = further

    def generate(self, generator: Callable[..., Tensor], z: Batch) -> Batch:
        """Generate a batch from latents, under their conditions, with the terms that the generator itself computes."""
        outputs: Any
        if hasattr(type(generator), "with_terms"):  # of the class, since a missing attribute of a module takes time
            outputs = self._run(lambda network, batch: self._pass(network.with_terms, batch), generator, z)
        else:
            outputs = self._run(self._pass, generator, z)
        values, *own = outputs if isinstance(outputs, tuple) else (outputs,)
        return Batch(values, z.conditions, z.values.detach(), z.target, tuple(own))

    def score(self, discriminator: Callable[..., Tensor], batch: Batch) -> Tensor:
        """Score a batch: `(B,)`, `(B, 1, S)` for S places of each sample, or `(B, 1 + k)` with k further numbers per sample."""
        scores: Tensor = self._run(self._pass, discriminator, batch)
        if self.further:
            if scores.dim() != 2 or len(scores) != len(batch) or scores.shape[1] < 2:
                raise NoScores(
                    f"the discriminator must return each sample's score and, for this loss, its {self.further} behind it, "
                    f"({len(batch)}, 1 + k) in all, and returned {tuple(scores.shape)}: see `reads` in ganexp/losses/base.py"
                )
        elif scores.shape != (len(batch),) and (scores.dim() < 3 or scores.shape[:2] != (len(batch), 1)):
            column = scores.shape == (len(batch), 1)
            remedy = "end it with .squeeze(1)" if column else "end it with a layer that has one output channel"
            raise NoScores(
                f"the discriminator must return one score per sample, {(len(batch),)} for a batch of shape "
                f"{tuple(batch.values.shape)}, or a map of scores, {(len(batch), 1)} and its sides, and returned "
                f"{tuple(scores.shape)}: {remedy}"
            )
        return flat(scores)

    def features(self, discriminator: Discriminator, batch: Batch) -> list[Tensor]:
        """Return the outputs of a discriminator's layers, by its method `features`."""

        def features(network: Any) -> list[Tensor]:
            return list(network.features(batch.values, *batch.conditions))

        if self.autocast is None:
            return read(discriminator, features)
        with torch.autocast(batch.values.device.type, self.autocast, cache_enabled=False):
            return [layer.to(batch.values.dtype) for layer in read(discriminator, features)]

    def in_parts(self, discriminator: Discriminator) -> Discriminator:
        """Return a discriminator that scores a batch in parts, if there are several, and can be differentiated twice."""
        if self.parts.count > 1 and isinstance(discriminator, nn.Module) and not self.parts.draws(discriminator):
            return InParts(discriminator, self.parts.count)
        return discriminator

    def _run(self, run: Callable[[Any, Batch], Any], network: Callable[..., Tensor], batch: Batch) -> Any:
        if self.parts.count > 1 and isinstance(network, nn.Module):
            return self.parts(run, network, batch)
        return run(network, batch)

    def _pass(self, network: Callable[..., Any], batch: Batch) -> Any:
        if self.autocast is None:
            return network(batch.values, *batch.conditions)
        with torch.autocast(batch.values.device.type, self.autocast, cache_enabled=False):  # a weight is used once a pass
            outputs = network(batch.values, *batch.conditions)
        if isinstance(outputs, tuple):
            return tuple(output.to(batch.values.dtype) for output in outputs)
        return outputs.to(batch.values.dtype)


def ends_in_sigmoid(scores: Tensor) -> bool:
    """Return, by their graph, whether scores are those of a sigmoid, or means of such over patches."""
    node = scores.grad_fn
    while node is not None and node.name().partition("Backward")[0] in KEEPS_RANGE:
        node = node.next_functions[0][0]
    return node is not None and node.name().partition("Backward")[0] in ("Sigmoid", "Hardsigmoid")
