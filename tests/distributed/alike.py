"""Whether several processes train what one trains with the whole batch."""

import copy

import pytest
import torch

from ganexp.distributed.batch_norm import synchronise
from ganexp.distributed.processes import Processes
from tests.distributed.forks import several
from tests.tiny import tiny_gan, train_share


def trained(cases, processes):
    """Train tiny GANs, each `{name: (case, strategy)}`, and return what they have become, by name."""
    made = {}
    for name, (case, strategy) in cases.items():
        gan = tiny_gan(case, processes=processes)
        gan.optimizer_d.param_groups[0]["eps"] = 1e-3  # Adam would divide the rounding errors of a zero gradient by themselves
        if processes.count > 1:
            synchronise(gan.discriminator, processes)
        made[name] = train_share(gan, copy.deepcopy(strategy))
    return made


def assert_the_same(cases, count, folder):
    alone = trained(cases, Processes())
    for made in several(count, lambda processes: trained(cases, processes), folder):
        for name, (tensors, measured) in alone.items():
            torch.testing.assert_close(
                made[name][0], tensors, rtol=1e-10, atol=1e-10, msg=lambda said, name=name: f"{name}: {said}"
            )
            assert made[name][1] == pytest.approx(measured, rel=1e-10, abs=1e-10), name
