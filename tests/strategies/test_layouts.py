"""Gradients reach the optimisers in their parameters' layout, whatever layout autograd finds convenient."""

import pytest
import torch
from torch import nn

from ganexp import GAN, Prior, strategies
from ganexp.losses import WGAN, NonSaturating
from tests.composing import every_strategy
from tests.tiny import STRATEGIES, ZERO_SUM, train


class Awkward(nn.Module):
    """Scores whose weights get transposed gradients by a copy, and a bias whose gradient is one number, expanded."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(5, 2)), nn.Parameter(torch.randn(5))

    def forward(self, x):
        return (x @ self.weight.T.contiguous()).tanh().sum(1) + self.bias.sum()


def trained(strategy, loss, *, fused):
    torch.manual_seed(0)
    G, D = nn.Linear(3, 2).double(), Awkward().double()
    gan = GAN(
        G,
        D,
        loss,
        torch.optim.Adam(G.parameters(), 0.05, fused=fused),
        torch.optim.Adam(D.parameters(), 0.05, fused=fused, foreach=False if not fused else None),
        Prior(3, dtype=torch.float64),
        batch_size=4,
    )
    reals = iter(lambda: torch.ones(4, 2, dtype=torch.float64), None)
    return train(gan, strategy, 5, reals=reals)


def test_autograd_does_choose_other_layouts():
    D = Awkward()
    weight, bias = torch.autograd.grad(D(torch.randn(4, 2)).sum(), [D.weight, D.bias])
    assert weight.stride() != D.weight.stride()
    assert bias.stride() == (0,)


@pytest.mark.parametrize("strategy", every_strategy())
def test_fused_optimisers_agree_with_those_that_respect_strides(strategy):
    loss = WGAN if strategy in ZERO_SUM else NonSaturating
    fused, plain = (trained(STRATEGIES[strategy], loss(), fused=f) for f in (True, False))
    torch.testing.assert_close(fused, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("strategy", [strategies.joint, strategies.Unrolled(k=2, rate=0.1)], ids=["joint", "unrolled"])
def test_channels_last_networks_train_as_contiguous_ones(strategy):
    from ganexp.networks import DCGANDiscriminator, DCGANGenerator

    ends = []
    for layout in (torch.contiguous_format, torch.channels_last):
        torch.manual_seed(0)
        G = DCGANGenerator(3, (3, 16, 16), width=4).double().to(memory_format=layout)
        D = DCGANDiscriminator((3, 16, 16), width=4).double().to(memory_format=layout)
        optimizers = [torch.optim.Adam(net.parameters(), 1e-3, fused=True) for net in (G, D)]
        gan = GAN(G, D, NonSaturating(), *optimizers, Prior(3, dtype=torch.float64), batch_size=4)
        reals = iter(lambda: torch.linspace(-1, 1, 4 * 3 * 256, dtype=torch.float64).view(4, 3, 16, 16), None)
        ends.append(train(gan, strategy, reals=reals))
    torch.testing.assert_close(*ends, rtol=1e-7, atol=1e-10)
