"""Passing a batch through a network in parts, each recomputed in the backward pass, so that memory is that of one part."""

from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ganexp.batch import Batch
from ganexp.networks.coupling import coupled
from ganexp.streams import undisturbed

Run = Callable[[nn.Module, Batch], Tensor]
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

    def __call__(self, run: Run, network: nn.Module, batch: Batch) -> Tensor:
        """Run a network on a batch, part by part.

        Raises:
            ValueError: The network's gradients would not be those of the whole batch: see `refuse_inexact`. This is tried on
                the first batch, and waits for the device.
        """
        parts = batch.split(-(-len(batch) // self.count))
        if not torch.is_grad_enabled():
            return torch.cat([run(network, part) for part in parts])
        if network not in self._draws:
            self._draws[network] = not batch.values.is_meta and refuse_inexact(network, batch)
        again = _unmoved(run, network)
        draws = self._draws[network]
        outputs = [
            checkpoint(again, part.values, *part.conditions, use_reentrant=False, preserve_rng_state=draws) for part in parts
        ]
        return torch.cat(outputs)


def _unmoved(run: Run, network: nn.Module) -> Callable[..., Tensor]:
    """Return a pass that can be repeated as long as the network has the weights that it has now."""
    parameters = [*network.parameters()]
    versions = [parameter._version for parameter in parameters]

    def again(values: Tensor, *conditions: Tensor) -> Tensor:
        if versions != [parameter._version for parameter in parameters]:
            raise RuntimeError("a network was moved between a pass and its backward pass, which accumulate cannot repeat")
        return run(network, Batch(values, conditions))

    return again


def refuse_inexact(network: nn.Module, batch: Batch) -> bool:
    """Refuse a network that treats parts of a batch unlike the whole, and return whether it draws random numbers.

    A few samples are passed through it: the output for one must not depend on another, which autograd tests, and no
    buffer may change. The network and the random streams are left as they were.

    Raises:
        ValueError: It couples the samples of a batch, as batch norm does, or changes its own state, as spectral norm does.
    """
    values = batch.values[:TRIED].detach().clone().requires_grad_()
    values = values.view_as(values)  # not a leaf: counting operations fails if a leaf enters a module
    conditions = [one[:TRIED] for one in batch.conditions]
    buffers = [_Buffer(m, name, b) for m in network.modules() for name, b in m._buffers.items() if b is not None]
    with undisturbed(values.device), torch.enable_grad():
        before = _random_state(values.device)
        try:
            output = network(values, *conditions)
            draws = not torch.equal(before, _random_state(values.device))
            changed = [buffer.name for buffer in buffers if buffer.written()]
            sums = (output * torch.randn_like(output)).reshape(len(values), -1).sum(1)
            couples = len(values) > 1 and coupled(values, sums.unbind())
        finally:
            for buffer in buffers:
                buffer.put_back()
    if changed:
        raise ValueError(f"changes its {changed[0]} in every pass, as batch norm and spectral norm do")
    if couples:
        raise ValueError("lets the samples of a batch depend on each other, as batch norm and minibatch statistics do")
    return draws


class _Buffer:
    """A buffer of a module, as it was when this object was made."""

    def __init__(self, module: nn.Module, name: str, buffer: Tensor) -> None:
        self.module, self.name, self.buffer = module, name, buffer
        self.kept, self.version = buffer.clone(), buffer._version

    def written(self) -> bool:
        """Return whether it was written to, even with equal values; values are compared as some writes keep the version."""
        now = self.module._buffers[self.name]
        return now is not self.buffer or now._version != self.version or not torch.equal(now, self.kept)

    def put_back(self) -> None:
        with torch.no_grad():
            self.buffer.copy_(self.kept)
        self.module._buffers[self.name] = self.buffer


def _random_state(device: torch.device) -> Tensor:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return torch.cat(states)
