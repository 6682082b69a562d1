"""A test whether a network couples the samples of a batch, writes to buffers, or draws random numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.streams import undisturbed


class Findings(NamedTuple):
    """The results of `examine`."""

    couples: bool
    """Whether the output for the first or the last sample depends on other samples."""
    changed: str
    """The name of a buffer that was written to, even with equal values; empty if there is none."""
    draws: bool
    """Whether random numbers were drawn from torch's global streams."""
    repeats: bool
    """Whether another pass with the same random numbers from these streams gave the same output, up to rounding."""


def examine(network: nn.Module, batch: Batch) -> Findings:
    """Pass a batch through a network twice, and restore the network and the global streams. It waits for the device.

    Coupling is tested by autograd: the gradient of one sample's output with respect to another sample must be zero.
    """
    values = batch.values.detach().clone().requires_grad_()
    values = values.view_as(values)  # not a leaf: counting operations fails if a leaf enters a module
    buffers = [
        (m, name, b, b.clone(), b._version) for m in network.modules() for name, b in m._buffers.items() if b is not None
    ]
    with undisturbed(values.device), unmoved(network), torch.enable_grad():
        before = _random_state(values.device)
        with torch.no_grad(), torch.random.fork_rng([values.device] if values.is_cuda else []):
            once = network(values, *batch.conditions)
        output = network(values, *batch.conditions)
        repeats = not (once - output).norm() > 1e-3 * output.norm()  # values that are not finite are no difference
        draws = not torch.equal(before, _random_state(values.device))
        changed = [
            name
            for module, name, buffer, kept, version in buffers
            # values are compared too, as some writes keep the version
            if module._buffers[name] is not buffer or buffer._version != version or not torch.equal(buffer, kept)
        ]
        sums = (output * torch.randn_like(output)).reshape(len(values), -1).sum(1)
        by_first, by_last = (
            torch.autograd.grad(sums[i], values, retain_graph=True, materialize_grads=True)[0] for i in (0, -1)
        )
    couples = bool(by_first[1:].any() or by_last[:-1].any())
    return Findings(couples=couples, changed=changed[0] if changed else "", draws=draws, repeats=repeats)


def _random_state(device: torch.device) -> Tensor:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return torch.cat(states)


@contextmanager
def unmoved(*networks: nn.Module) -> Iterator[None]:
    """Restore the buffers of networks at the end, whether they were written to or replaced."""
    modules = [module for network in networks for module in network.modules()]
    buffers = [(m, name, buffer, buffer.clone()) for m in modules for name, buffer in m._buffers.items() if buffer is not None]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, was in buffers:
                buffer.copy_(was)
                module._buffers[name] = buffer
