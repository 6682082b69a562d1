"""Forming an objective looks, and only an update records."""

import pytest
import torch

from ganexp import strategies
from ganexp.strategies import Unrolled
from tests.tiny import CASES, real_batches, state, tiny_gan


@pytest.mark.parametrize("loss", ["began", "wgan_gp"])
def test_forming_objectives_moves_neither_k_t_nor_the_log(loss):
    ends = []
    for looks in (0, 3):
        gan, reals = tiny_gan(CASES[loss]), real_batches()
        for _ in range(3):
            strategies.detach(gan, reals, d_steps=1, g_steps=1)
            x, fake = torch.ones(6, 2).double(), torch.zeros(6, 2).double()
            for _ in range(looks):
                random = gan.penalty.state_dict()
                gan.d_loss(x, fake), gan.g_loss(x, fake), gan.losses(x, fake), Unrolled(k=1).g_loss(gan, x, fake)
                gan.penalty.load_state_dict(random)  # a penalty that is formed draws from its stream
            gan.finish_iteration()
        ends.append((state(gan), gan.meter.read(gan.measurements()), gan.meter.updates))
    assert all(torch.equal(a, b) for a, b in zip(ends[0][0], ends[1][0], strict=True))
    assert ends[0][1:] == ends[1][1:]


def test_the_step_ahead_of_extragradient_is_not_in_the_log():
    gan, reals = tiny_gan(CASES["lsgan"]), real_batches()
    strategies.Extragradient()(gan, reals, d_steps=1, g_steps=1)
    assert gan.meter.counts == {"loss/d": 1, "loss/g": 1, "score/real": 1, "score/fake": 1}
    assert gan.meter.updates == {"d": 1, "g": 1}
