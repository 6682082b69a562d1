"""Passing a batch through a network in parts, each recomputed in the backward pass, so that memory is that of one part."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from ganexp.batch import Batch
from ganexp.networks.coupling import examine

ForwardPass = Callable[[nn.Module, Batch], Any]
"""One forward pass of a network."""

TRIED = 4
"""The number of samples that a network is tested on."""


class MicroBatches:
    """Gradient accumulation that is exact for every loss: only networks see parts, losses see all scores.

    Activations of a pass are dropped, and recomputed part by part in the backward pass (Chen et al. 2016,
    one segment per part). The price is one more forward pass wherever there is a backward pass.

    Args:
        count: The maximum number of parts of a batch; if it does not divide the batch size, the last part is smaller.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._draws: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()

    def __call__(self, run: ForwardPass, network: nn.Module, batch: Batch) -> Any:
        """Run a network on a batch, part by part; the first batch is tested by `refuse_inexact`, which waits for the device."""
        parts = batch.split(-(-len(batch) // self.count))
        if not torch.is_grad_enabled():
            return _joined([run(network, part) for part in parts])
        if network not in self._draws:
            self._draws[network] = not batch.values.is_meta and refuse_inexact(network, batch)
        repeated = _unmoved(run, network)
        draws = self._draws[network]
        outputs = [
            checkpoint(repeated, part.values, *part.conditions, use_reentrant=False, preserve_rng_state=draws) for part in parts
        ]
        return _joined(outputs)

    def draws(self, network: nn.Module) -> bool:
        """Return whether a network that has been run was found to draw random numbers."""
        return self._draws.get(network, False)


def _joined(outputs: list[Any]) -> Any:
    """Return the outputs of parts as those of the whole: tensors, or tuples of them."""
    if isinstance(outputs[0], tuple):
        return tuple(map(torch.cat, zip(*outputs, strict=True)))
    return torch.cat(outputs)


def _unmoved(run: ForwardPass, network: nn.Module) -> Callable[..., Any]:
    """Return a pass that can be repeated as long as the network has the weights that it has now."""
    parameters = [*network.parameters()]
    versions = [parameter._version for parameter in parameters]

    def repeated(values: Tensor, *conditions: Tensor) -> Any:
        if versions != [parameter._version for parameter in parameters]:
            raise RuntimeError("a network was moved between a pass and its backward pass, which accumulate cannot repeat")
        return run(network, Batch(values, conditions))

    return repeated


def refuse_inexact(network: nn.Module, batch: Batch) -> bool:
    """Refuse a network whose gradients of parts are not those of the whole, and return whether it draws random numbers."""
    coupling = examine(network, batch.split(TRIED)[0])
    if coupling.changed:
        raise ValueError(f"changes its {coupling.changed} in every pass, as batch norm and spectral norm do")
    if coupling.couples:
        raise ValueError("lets the samples of a batch depend on each other, as batch norm and minibatch statistics do")
    if not coupling.repeats:
        raise ValueError("draws random numbers from another stream than torch's, which cannot be drawn again")
    return coupling.draws


class InParts:
    """A discriminator that scores a batch in parts, and can be differentiated twice at most, as penalties on gradients do.

    Neither a pass nor its gradient keeps activations: both are computed again, part by part, to be differentiated.

    Args:
        discriminator: A module that treats each sample by itself.
        count: Number of parts.
    """

    def __init__(self, discriminator: nn.Module, count: int) -> None:
        self.discriminator, self.count = discriminator, count

    def __call__(self, values: Tensor, *conditions: Tensor) -> Tensor:
        """Score samples, `(B, …)`."""
        weights = [p for p in self.discriminator.parameters() if p.requires_grad]
        scores: Tensor = _Scores.apply(self, values, conditions, *weights)
        return scores

    def read(self, what: Callable[[nn.Module], Any]) -> Any:
        """Apply a function to the discriminator itself."""
        return what(self.discriminator)

    def parts(self, values: Tensor, conditions: tuple[Tensor, ...]) -> list[Batch]:
        """Split a batch, cut off from its graph."""
        return Batch(values.detach(), conditions).split(-(-len(values) // self.count))


class _Scores(torch.autograd.Function):
    """D(x; θ) in parts."""

    @staticmethod
    def forward(ctx: Any, of: InParts, values: Tensor, conditions: tuple[Tensor, ...], *weights: Tensor) -> Tensor:
        ctx.of, ctx.conditions = of, conditions
        ctx.save_for_backward(values, *weights)
        return torch.cat([of.discriminator(part.values, *part.conditions) for part in of.parts(values, conditions)])

    @staticmethod
    def backward(ctx: Any, along: Tensor) -> Any:
        values, *weights = ctx.saved_tensors
        of_values, *of_weights = _Gradient.apply(ctx.of, values, along, ctx.conditions, *weights)
        return None, of_values, None, *of_weights


class _Gradient(torch.autograd.Function):
    """∇⟨D(x; θ), along⟩ with respect to x and θ, in parts."""

    @staticmethod
    def forward(
        ctx: Any, of: InParts, values: Tensor, along: Tensor, conditions: tuple[Tensor, ...], *weights: Tensor
    ) -> tuple[Tensor | None, ...]:
        ctx.of, ctx.conditions = of, conditions
        ctx.save_for_backward(values, along, *weights)
        parts = of.parts(values, conditions)
        of_values: list[Tensor] = []
        total: list[Tensor | None] = [None] * len(weights)
        for part, factor in zip(parts, along.split(len(parts[0])), strict=True):
            with torch.enable_grad():
                x = part.values.requires_grad_()
                scores = of.discriminator(x, *part.conditions)
            own, *gradients = torch.autograd.grad(scores, [x, *weights], factor, allow_unused=True)
            of_values.append(torch.zeros_like(x) if own is None else own)
            total = _sums(total, gradients)
        return torch.cat(of_values), *total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *along_gradients: Any) -> Any:
        values, along, *weights = ctx.saved_tensors
        parts, (along_values, *along_weights) = ctx.of.parts(values, ctx.conditions), along_gradients
        size, of_values, of_along = len(parts[0]), [], []
        total: list[Tensor | None] = [None] * len(weights)
        for part, factor, onto in zip(parts, along.detach().split(size), along_values.split(size), strict=True):
            with torch.enable_grad():
                x, factor = part.values.requires_grad_(), factor.clone().requires_grad_()
                scores = ctx.of.discriminator(x, *part.conditions)
                derivatives = torch.autograd.grad(scores, [x, *weights], factor, create_graph=True, allow_unused=True)
            pairs = zip(derivatives, (onto, *along_weights), strict=True)
            moving = [(derivative, onto) for derivative, onto in pairs if derivative is not None and derivative.requires_grad]
            ends, onto = zip(*moving, strict=True)
            own, by, *gradients = torch.autograd.grad(ends, [x, factor, *weights], onto, allow_unused=True)
            of_values.append(torch.zeros_like(x) if own is None else own)
            of_along.append(torch.zeros_like(factor) if by is None else by)
            total = _sums(total, gradients)
        return None, torch.cat(of_values), torch.cat(of_along), None, *total


def _sums(some: Sequence[Tensor | None], others: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return sums of gradients; that of a weight which no part has reached is None, as it is for a whole batch."""
    return [b if a is None else a if b is None else a + b for a, b in zip(some, others, strict=True)]
