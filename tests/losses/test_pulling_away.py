"""EBGAN's pulling-away term (Zhao et al. 2016, section 2.4), on the code that D's encoder has for the fakes."""

import numpy as np
import pytest
import torch

from ganexp.losses import EBGAN
from ganexp.losses.ebgan import alike
from ganexp.networks import BEGANDiscriminator


def by_pairs(codes):
    n, total = len(codes), 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                total += (codes[i] @ codes[j] / (np.linalg.norm(codes[i]) * np.linalg.norm(codes[j]))) ** 2
    return total / (n * (n - 1))


def test_it_is_the_mean_squared_cosine_of_all_pairs():
    codes = np.random.default_rng(0).normal(size=(6, 4))
    tensor = torch.tensor(codes, requires_grad=True)
    assert alike(tensor).item() == pytest.approx(by_pairs(codes), rel=1e-12)
    assert torch.autograd.gradcheck(alike, tensor)
    assert torch.autograd.gradgradcheck(alike, tensor)
    assert alike(torch.eye(3)).item() == 0
    assert alike(torch.ones(3, 2)).item() == pytest.approx(1)
    assert alike(torch.ones(1, 2)).item() == 0  # there is no pair
    assert alike(torch.zeros(3, 2)).isfinite()


def test_it_is_added_to_gs_loss_alone():
    rng = np.random.default_rng(1)
    r, f = rng.uniform(0, 2, size=(2, 5, 4))
    plain, pulling = EBGAN(), EBGAN(pulling_away=0.1)
    real, fake = torch.tensor(r), torch.tensor(f)
    assert (plain.reads, pulling.reads) == ("", "code")
    assert torch.equal(pulling.d_loss(real, fake), plain.d_loss(real[:, 0], fake[:, 0]))
    assert pulling.g_loss(None, fake).item() == pytest.approx(f[:, 0].mean() + 0.1 * by_pairs(f[:, 1:]), rel=1e-12)


def test_the_code_stands_behind_each_energy():
    D, x = BEGANDiscriminator((1, 16, 16), width=2, code_dim=5, returns_code=True).double(), torch.randn(3, 1, 16, 16).double()
    outputs = D(x)
    assert torch.equal(outputs[:, 1:], D.encoder(x))
    torch.testing.assert_close(outputs[:, 0], (x - D.reconstruct(x)).abs().mean((1, 2, 3)))
