"""Draws samples from a generator without changing any state."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.networks.coupling import unmoved
from ganexp.prior import Prior
from ganexp.streams import undisturbed


@contextmanager
def unchanged(prior: Prior, *networks: nn.Module) -> Iterator[None]:
    """Use networks without changing any state: modes, buffers and random streams are restored.

    Networks are in evaluation mode, and those that draw random numbers of their own draw the same ones each time, from the
    prior's seed. Each module gets its own mode back; `train(mode)` would thaw a layer that had been put into evaluation mode
    for good.
    """
    modes = [(module, module.training) for network in networks for module in network.modules()]
    with (
        torch.no_grad(),
        undisturbed(prior.device, prior.seed),
        unmoved(*networks),
        torch.compiler.set_stance("force_eager"),
    ):
        for network in networks:
            network.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training


def samples_of(generator: nn.Module, z: Batch) -> Tensor:
    """Return the samples that a generator makes from latents `(B, latent_dim)`, under their conditions."""
    return generator(z.values, *z.conditions)
