"""Adam with settings in tensors that move is torch's Adam with the same numbers on the host, to rounding."""

import pytest
import torch

from ganexp.optimizers import adamw
from ganexp.schedules import OptimizerSetting


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", ["betas", "weight_decay", "eps"])
def test_it_is_torchs_with_numbers_that_are_set_by_hand(decoupled, fused, name):
    settings = {"lr": 0.01, "betas": (0.5, 0.9), "weight_decay": 0.3, "eps": 1e-4}
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    ours, theirs = ([torch.nn.Parameter(torch.linspace(-1, 1, n, dtype=torch.float64)) for n in (1, 7)] for _ in range(2))
    moving, by_hand = (kind(one, **settings, fused=fused) for one in (ours, theirs))
    rate = torch.tensor(0.01, dtype=torch.float64)
    moving.param_groups[0]["lr"] = rate
    place = OptimizerSetting([moving], name, 1 if name == "betas" else None)
    place.begin(rate.device, torch.float64)
    draws = torch.Generator().manual_seed(0)
    for t in range(12):
        value, lr = {"betas": 0.9 - 0.05 * t, "weight_decay": 0.1 * t, "eps": 0.01 * t + 1e-6}[name], 0.01 * (1 + t)
        place.write(value)
        rate.fill_(lr)
        by_hand.param_groups[0] |= {"lr": lr, name: (0.5, value) if name == "betas" else value}
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn(p.shape, generator=draws, dtype=torch.float64)
            q.grad = None if t == 5 and q is theirs[1] else p.grad.clone()
            p.grad = None if q.grad is None else p.grad
        moving.step()
        by_hand.step()
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(moving.state[p], by_hand.state[q], rtol=1e-11, atol=1e-13)


def test_one_that_maximizes_stays_torchs_own():
    one = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], maximize=True)
    assert OptimizerSetting([one], "betas", 1).on_host == "Adam reads a moving betas"


@pytest.mark.parametrize("begun", [False, True], ids=["host", "device"])
@pytest.mark.parametrize("start", [0.0, 0.1])
def test_a_moving_decay_leaves_biases_and_gains_alone(begun, start):
    network = torch.nn.Linear(3, 2).double()
    bias, weight = network.bias.detach().clone(), network.weight.detach().clone()
    optimizer = adamw(network.parameters(), lr=0.1, weight_decay=start)
    place = OptimizerSetting([optimizer], "weight_decay")
    if begun:
        place.begin(bias.device, bias.dtype)
    place.write(0.5)
    for p in network.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert torch.equal(network.bias, bias)
    torch.testing.assert_close(network.weight, 0.95 * weight, rtol=1e-12, atol=0)
