"""The minibatch standard deviation against NumPy, and what it means for strategies."""

import numpy as np
import pytest
import torch
from torch import nn

from ganexp import GAN, Prior, strategies
from ganexp.losses import WGAN, NonSaturating
from ganexp.networks import MinibatchDeviation, MLPGenerator


def by_numpy(h, size):
    rows = []
    for i in range(len(h)):
        group = h[i // size * size : i // size * size + size]
        rows.append(np.sqrt(group.var(0) + 1e-8).mean())
    return np.array(rows)


@pytest.mark.parametrize(("batch", "group", "size"), [(8, 4, 4), (8, 2, 2), (6, 4, 6), (1, 4, 1)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (7,)])
def test_the_further_channel_is_numpys(batch, group, size, shape):
    h = torch.randn(batch, *shape, dtype=torch.float64)
    out = MinibatchDeviation(group=group)(h)
    assert out.shape == (batch, shape[0] + 1, *shape[1:])
    assert torch.equal(out[:, :-1], h)
    expected = by_numpy(h.numpy(), size)
    channel = out[:, -1:].flatten(1).numpy()
    np.testing.assert_allclose(channel, np.broadcast_to(expected[:, None], channel.shape), rtol=1e-12)


def test_layouts_and_narrow_types_agree():
    h, layer = torch.randn(8, 3, 4, 4), MinibatchDeviation()
    torch.testing.assert_close(layer(h.to(memory_format=torch.channels_last)), layer(h))
    torch.testing.assert_close(layer(h.bfloat16())[:, -1].float(), layer(h)[:, -1], rtol=1e-2, atol=0)
    same = torch.ones(4, 3, 2, 2, dtype=torch.bfloat16, requires_grad=True)
    assert torch.autograd.grad(layer(same).sum(), same)[0].isfinite().all()


def test_gradients_are_exact():
    h = torch.randn(4, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(MinibatchDeviation(group=2), h)
    assert torch.autograd.gradgradcheck(MinibatchDeviation(group=2), h)


def ends(strategy, loss):
    torch.manual_seed(0)
    generator = MLPGenerator(3, (2,), width=4).double()
    discriminator = nn.Sequential(
        nn.Linear(2, 6), nn.Tanh(), MinibatchDeviation(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 1), nn.Flatten(0)
    ).double()
    optimizers = (torch.optim.Adam(network.parameters(), eps=1e-4) for network in (generator, discriminator))
    gan = GAN(generator, discriminator, loss(), *optimizers, Prior(3, dtype=torch.float64), batch_size=8)
    draw = torch.Generator().manual_seed(1)
    reals = iter(lambda: torch.randn(8, 2, generator=draw, dtype=torch.float64), None)
    for _ in range(5):
        strategy(gan, reals, d_steps=1, g_steps=1)
    return [*generator.parameters(), *discriminator.parameters()]


def test_one_stage_refuses_it_where_it_would_be_wrong():
    with pytest.raises(ValueError, match="depend on other images of the batch"):
        ends(strategies.one_stage, NonSaturating)
    torch.testing.assert_close(ends(strategies.one_stage, WGAN), ends(strategies.joint, WGAN), rtol=1e-10, atol=1e-11)


def test_a_group_of_one_is_refused():
    with pytest.raises(ValueError, match=r"^group should be greater than or equal to 2"):
        MinibatchDeviation(group=1)
