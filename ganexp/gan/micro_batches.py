"""Passing a batch through a network in parts, each recomputed in the backward pass, so that memory is that of one part."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ganexp.batch import Batch
from ganexp.networks.coupling import examine

ForwardPass = Callable[[nn.Module, Batch], Any]
"""One forward pass of a network."""

TRIED = 4
"""Samples that a network is tried on."""


class MicroBatches:
    """Gradient accumulation that is exact for every loss: only networks see parts, losses see all scores.

    What a pass keeps for the backward pass is dropped, and recomputed part by part when it is needed (Chen et al. 2016,
    one segment per part). The price is one more forward pass wherever there is a backward pass.

    Args:
        count: How many parts a batch is split into, at most; where that does not divide it, the last part is smaller.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._draws: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()

    def __call__(self, run: ForwardPass, network: nn.Module, batch: Batch) -> Any:
        """Run a network on a batch, part by part.

        Raises:
            ValueError: The network's gradients would not be those of the whole batch: see `refuse_inexact`. This is tried on
                the first batch, and waits for the device.
        """
        parts = batch.split(-(-len(batch) // self.count))
        if not torch.is_grad_enabled():
            return _joined([run(network, part) for part in parts])
        if network not in self._draws:
            self._draws[network] = not batch.values.is_meta and refuse_inexact(network, batch)
        again = _unmoved(run, network)
        draws = self._draws[network]
        outputs = [
            checkpoint(again, part.values, *part.conditions, use_reentrant=False, preserve_rng_state=draws) for part in parts
        ]
        return _joined(outputs)


def _joined(outputs: list[Any]) -> Any:
    """Return the outputs of parts as those of the whole: tensors, or tuples of them."""
    if isinstance(outputs[0], tuple):
        return tuple(map(torch.cat, zip(*outputs, strict=True)))
    return torch.cat(outputs)


def _unmoved(run: ForwardPass, network: nn.Module) -> Callable[..., Any]:
    """Return a pass that can be repeated as long as the network has the weights that it has now."""
    parameters = [*network.parameters()]
    versions = [parameter._version for parameter in parameters]

    def again(values: Tensor, *conditions: Tensor) -> Any:
        if versions != [parameter._version for parameter in parameters]:
            raise RuntimeError("a network was moved between a pass and its backward pass, which accumulate cannot repeat")
        return run(network, Batch(values, conditions))

    return again


def refuse_inexact(network: nn.Module, batch: Batch) -> bool:
    """Refuse a network that treats parts of a batch unlike the whole, and return whether it draws random numbers.

    Raises:
        ValueError: It couples the samples of a batch, as batch norm does, changes its own state, as spectral norm does, or
            draws random numbers that cannot be drawn again in the backward pass.
    """
    found = examine(network, batch.split(TRIED)[0])
    if found.changed:
        raise ValueError(f"changes its {found.changed} in every pass, as batch norm and spectral norm do")
    if found.couples:
        raise ValueError("lets the samples of a batch depend on each other, as batch norm and minibatch statistics do")
    if not found.repeats:
        raise ValueError("draws random numbers from another stream than torch's, which cannot be drawn again")
    return found.draws
