"""Samplers that D guides, on Gaussians, where the best D is known: rejection is exact, Langevin steps have a closed form."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from ganexp.facts import UserError
from ganexp.sampling import Langevin, Rejection, Trained

MEAN, SPREAD = 0.5, 0.6


class Itself(nn.Module):
    def forward(self, z, *labels):
        return z if not labels else z + labels[0][:, None]


class Best(nn.Module):
    """log N(x; mean, spread²) / N(x; 0, 1) in each coordinate, and any constant: of the optimal discriminator."""

    def forward(self, x, *labels):
        own = x if not labels else x - labels[0][:, None]
        return (0.5 * own.square() - 0.5 * ((own - MEAN) / SPREAD).square()).sum(1) + 7


def gaussian(classes=0, prior="normal", dim=1):
    return Trained(Itself(), latent_dim=dim, prior=prior, shape=(dim,), classes=classes, dtype=torch.float64)


def test_rejection_makes_the_datas_distribution_of_gs():
    G = Rejection(gaussian(), Best(), pilot=2000)
    drawn = G.sample(1500, seed=1).flatten().numpy()
    assert stats.kstest(drawn, stats.norm(MEAN, SPREAD).cdf).pvalue > 1e-3
    assert stats.kstest(gaussian().sample(1500, seed=1).flatten().numpy(), stats.norm(MEAN, SPREAD).cdf).pvalue < 1e-6


def test_a_percentile_keeps_more_and_what_it_keeps_has_the_density_of_the_formula():
    G = Rejection(gaussian(), Best(), pilot=2000, percentile=80)
    drawn = G.sample(1500, seed=1).flatten().numpy()
    x = np.linspace(-6, 6, 4001)
    d = 0.5 * x**2 - 0.5 * ((x - MEAN) / SPREAD) ** 2 + 7 - G.largest
    ratio = np.exp(np.minimum(d, 0) - 1e-14)
    pilot = (0.5 * (z := np.random.default_rng(0).normal(size=200_000)) ** 2 - 0.5 * ((z - MEAN) / SPREAD) ** 2 + 7) - G.largest
    pilot = np.exp(np.minimum(pilot, 0) - 1e-14)
    assert np.quantile(np.log(pilot / (1 - pilot)), 0.8) == pytest.approx(G.gamma, abs=0.3)
    density = stats.norm.pdf(x) / (1 + np.exp(G.gamma) * (1 - ratio) / ratio)
    cumulative = np.cumsum(density) / density.sum()
    assert stats.kstest(drawn, lambda at: np.interp(at, x, cumulative)).pvalue > 1e-3


def test_langevin_steps_are_their_recurrence():
    """Each step is affine in z for Gaussians: mean and variance after any number of them are known."""
    steps, size = 40, 0.05
    drawn = Langevin(gaussian(), Best(), steps=steps, step_size=size).sample(1500, seed=1).flatten().numpy()
    shrink = 1 - size / (2 * SPREAD**2)
    mean = MEAN * (1 - shrink**steps)
    variance = shrink ** (2 * steps) + size * (1 - shrink ** (2 * steps)) / (1 - shrink**2)
    assert stats.kstest(drawn, stats.norm(mean, variance**0.5).cdf).pvalue > 1e-3
    assert variance == pytest.approx(SPREAD**2, rel=0.05)  # so that this is nearly the data's


@pytest.mark.parametrize("method", [lambda G: Rejection(G, Best(), pilot=500), lambda G: Langevin(G, Best(), steps=5)])
@pytest.mark.parametrize("classes", [0, 3])
def test_an_index_is_the_same_sample_in_any_company(method, classes):
    G = method(gaussian(classes, dim=3))
    whole = G.sample(300, seed=4)
    torch.testing.assert_close(G.sample(7, seed=4, first=290), whole[290:297], rtol=0, atol=1e-12)
    assert not torch.equal(G.sample(7, seed=5), whole[:7])
    state = torch.get_rng_state()
    G.sample(2)
    assert torch.equal(torch.get_rng_state(), state)
    if classes:
        torch.testing.assert_close(whole[1::3].mean().item(), whole[::3].mean().item() + 1, rtol=0, atol=0.3)


def test_a_generator_with_noise_of_its_own_neither_disturbs_nor_depends_on_what_was_drawn_before():
    class Noisy(Itself):
        def forward(self, z):
            return z + 0.1 * torch.randn_like(z)

    noisy = Trained(Noisy(), latent_dim=1, prior="normal", shape=(1,), classes=0, dtype=torch.float64)
    state = torch.get_rng_state()
    first = Rejection(noisy, Best(), pilot=500).sample(50)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    assert torch.equal(Rejection(noisy, Best(), pilot=500).sample(50), first)


class Steeper(Best):
    def __init__(self, by):
        super().__init__()
        self.by = nn.Parameter(torch.tensor(by))

    def forward(self, x):
        return self.by * super().forward(x)


def test_all_that_samples_depend_on_tells_them_apart():
    """A folder of samples is continued only by the same ones."""
    told = [
        Rejection(gaussian(), Steeper(1.0), pilot=20).how,
        Rejection(gaussian(), Steeper(1.0), pilot=20, percentile=80).how,
        Rejection(gaussian(), Steeper(1.0), pilot=30).how,
        Rejection(gaussian(), Steeper(2.0), pilot=20).how,
        Langevin(gaussian(), Steeper(1.0), steps=5).how,
        Langevin(gaussian(), Steeper(1.0), steps=6).how,
        Langevin(gaussian(), Steeper(2.0), steps=5).how,
    ]
    assert all(one not in told[:place] for place, one in enumerate(told))
    assert Rejection(gaussian(), Steeper(1.0), pilot=20, most=9999).how == told[0]  # by which no sample changes


def test_what_cannot_be_had_is_refused():
    class Unbounded(nn.Module):
        def forward(self, x):
            return 50 * x[:, 0]

    with pytest.raises(UserError, match="normal"):
        Langevin(gaussian(prior="uniform"), Best())
    with pytest.raises(UserError, match="truncation"):
        Langevin(gaussian(), Best()).sample(2, truncation=0.7)
    with pytest.raises(UserError, match="percentile"):
        Rejection(gaussian(), Unbounded(), most=3).sample(20)
    with pytest.raises(UserError, match="finite"):
        Rejection(gaussian(), nn.Sequential(nn.Flatten(0), type("Nan", (nn.Module,), {"forward": lambda _, x: x / 0 * 0})()))
    with pytest.raises(ValueError, match=r"^percentile"):
        Rejection(gaussian(), Best(), percentile=101)
