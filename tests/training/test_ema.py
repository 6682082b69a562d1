"""The averaged generator follows parameters by the stated recurrence, and buffers wherever they are."""

import numpy as np
import torch
from torch import nn

from ganexp.networks import MLPGenerator
from ganexp.training import EMA


class Counting(nn.Module):
    """Gives its buffers new tensors, of another shape even, and takes one away."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1))
        self.register_buffer("absent", torch.ones(2))

    def forward(self, z):
        self.seen = self.seen + len(z)
        self.last = z.detach().mean(1)
        self.absent = None
        return self.layer(z)


def test_buffers_are_followed_where_modules_put_new_tensors():
    generator = Counting()
    ema = EMA(generator, 0.9)
    for n in (4, 7):
        generator(torch.randn(n, 3))
        ema.update()
        assert torch.equal(ema.generator.seen, generator.seen)
        assert torch.equal(ema.generator.last, generator.last)
        assert ema.generator.absent is None
    assert ema.generator.last is not generator.last


def test_ema_follows_its_recurrence():
    generator = MLPGenerator(3, (2,), width=4).double()
    ema, by_hand = EMA(generator, 0.6), [p.detach().numpy().copy() for p in generator.parameters()]
    for t in range(1, 30):
        for p in generator.parameters():
            p.data.add_(torch.randn_like(p))
        ema.update()
        d = min(0.6, (1 + t) / (10 + t))
        by_hand = [d * slow + (1 - d) * p.detach().numpy() for slow, p in zip(by_hand, generator.parameters(), strict=True)]
    for slow, expected in zip(ema.generator.parameters(), by_hand, strict=True):
        np.testing.assert_allclose(slow.numpy(), expected, rtol=1e-12, atol=1e-14)
