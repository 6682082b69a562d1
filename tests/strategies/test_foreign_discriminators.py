"""Discriminators with unused parameters, modules registered twice, or shared weights: every strategy takes them."""

import pytest
import torch
from torch import nn

from ganexp import GAN, Prior
from ganexp.losses import Minimax, NonSaturating
from ganexp.networks import MLPGenerator
from tests.composing import every_strategy
from tests.tiny import BATCH, LATENT, STRATEGIES, ZERO_SUM, train


class Odd(nn.Module):
    """Two equal steps by one module that is registered under two names, or by two modules with the same weight; one unused."""

    def __init__(self, *, twice):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = self.first if twice else nn.Linear(2, 2)
        if not twice:
            self.second.weight, self.second.bias = self.first.weight, self.first.bias
        self.unused = nn.Linear(7, 7)
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, x):
        return (self.second(self.first(x).tanh()).tanh() * self.frozen).sum(1)


class Plain(nn.Module):
    """The same function, written in the usual way."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(self.layer(x).tanh()).tanh().sum(1)


def trained(strategy, discriminator, loss=NonSaturating):
    torch.manual_seed(0)
    generator, discriminator = MLPGenerator(LATENT, (2,), width=5, depth=1).double(), discriminator.double()
    layer = next(iter(discriminator.children()))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.4, -0.3], [0.7, 0.2]]))
        layer.bias.copy_(torch.tensor([0.1, -0.5]))
    optimizers = (
        torch.optim.Adam([p for p in net.parameters() if p.requires_grad], 0.01) for net in (generator, discriminator)
    )
    gan = GAN(generator, discriminator, loss(), *optimizers, Prior(LATENT, dtype=torch.float64), batch_size=BATCH)
    train(gan, strategy, g_steps=2)
    return discriminator, [*generator.parameters(), layer.weight, layer.bias]


@pytest.mark.parametrize("twice", [True, False], ids=["module registered twice", "weights shared by two modules"])
@pytest.mark.parametrize("strategy", every_strategy())
def test_odd_discriminators_train_as_plain_ones(strategy, twice):
    loss = Minimax if strategy in ZERO_SUM else NonSaturating
    odd, found = trained(STRATEGIES[strategy], Odd(twice=twice), loss)
    _, expected = trained(STRATEGIES[strategy], Plain(), loss)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    assert all(p.is_leaf for p in odd.parameters())
    assert odd.second.weight is odd.first.weight
    assert all(isinstance(p, nn.Parameter) for module in odd.modules() for p in module._parameters.values())
