"""Iterations on torch's meta device, where tensors have no memory: they are counted, and compute nothing."""

import itertools
from collections.abc import Callable
from functools import partial

import torch

from ganexp import GAN
from ganexp.batch import Batch
from ganexp.config.assemble import gan_of, networks_of, prior_of
from ganexp.config.check import Plan
from ganexp.distributed.batch_norm import synchronise
from ganexp.distributed.processes import Processes

META = torch.device("meta")


def on_meta(plan: Plan, processes: Processes | None = None) -> tuple[GAN, Callable[[], None]]:
    """Return the GAN of a plan, and a call that runs one iteration of the plan's strategy on a batch without values."""
    config = plan.config
    with META:
        networks = networks_of(plan.choices, plan.facts)
    labels = (torch.zeros(config.batch_size, dtype=torch.long, device=META),) if plan.facts.classes else ()
    x = Batch(torch.empty(config.batch_size, *plan.facts.shape, device=META), labels)
    if processes is not None:
        x = processes.own(x)
        for network in networks:
            synchronise(network, processes)
    gan = gan_of(
        plan.choices,
        plan.parts,
        *networks,
        prior=prior_of(config, META, torch.float32, [1.0] * plan.facts.classes or None, None),
        processes=processes,
    )
    reals = itertools.repeat(gan.packed(x))
    return gan, partial(plan.parts.strategy, gan, reals, d_steps=config.d_steps, g_steps=config.g_steps)
