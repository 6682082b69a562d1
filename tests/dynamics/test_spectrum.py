"""The spectrum of a game, against the dense Jacobian of a small one."""

import copy

import numpy as np
import pytest
import scipy.sparse.linalg
import torch
from torch import nn

from ganexp.batch import Batch
from ganexp.dynamics import path_angle, spectrum, still
from ganexp.training.callbacks.dynamics import figures
from tests.tiny import CASES, real_batches, tiny_gan


def at(gan):
    return Batch(next(real_batches())), gan.prior.measured(6)


def dense(gan, x, z):
    """Return J, block by block, by torch.func, of losses that are written out here: non-saturating, D first."""
    names = {"d": dict(gan.discriminator.named_parameters()), "g": dict(gan.generator.named_parameters())}
    weights = {key: {name: one.detach() for name, one in named.items()} for key, named in names.items()}

    def scored(d, g):
        fake = torch.func.functional_call(gan.generator, g, z.values)
        return [torch.func.functional_call(gan.discriminator, d, one) for one in (x.values, fake)]

    def d_loss(d, g):
        real, fake = scored(d, g)
        return nn.functional.softplus(-real).mean() + nn.functional.softplus(fake).mean()

    def g_loss(d, g):
        return nn.functional.softplus(-scored(d, g)[1]).mean()

    def rows(loss, own):
        v = torch.func.grad(loss, own)
        blocks = torch.func.jacrev(v, (0, 1))(weights["d"], weights["g"])
        return [
            torch.cat(
                [blocks[name][side][other].reshape(one.numel(), -1) for side in (0, 1) for other in blocks[name][side]], 1
            )
            for name, one in weights["dg"[own]].items()
        ]

    return torch.cat([*rows(d_loss, 0), *rows(g_loss, 1)]).numpy()


@pytest.mark.parametrize("dense_below", [0, 10**6])
def test_the_ends_of_the_spectrum_are_those_of_the_dense_jacobian(monkeypatch, dense_below):
    monkeypatch.setattr("ganexp.dynamics.eigenvalues.DENSE", dense_below)
    gan = tiny_gan(CASES["nonsaturating"])
    for one in (*gan.d_parameters, *gan.g_parameters):
        one.data.mul_(3)  # so that the curvature is not all of one size
    x, z = at(gan)
    j = dense(gan, x, z)
    of_d = sum(one.numel() for one in gan.d_parameters)
    with still(gan, x, z) as field:
        found = spectrum(field, count=4, products=20_000)
    known = np.linalg.eigvals(j)
    for one in found.eigenvalues:
        assert abs(known - one).min() < 1e-7 * abs(known).max()
    assert abs(found.eigenvalues).max() == pytest.approx(abs(known).max(), rel=1e-7)
    assert found.eigenvalues.real.min() == pytest.approx(known.real.min(), rel=1e-5)
    for ends, block in ((found.d, j[:of_d, :of_d]), (found.g, j[of_d:, of_d:])):
        block_known = np.linalg.eigvalsh((block + block.T) / 2)
        assert ends == pytest.approx((block_known[0], block_known[-1]), abs=1e-7 * abs(block_known).max())


@pytest.mark.parametrize("lost", ["SR", "LM"])
def test_what_a_search_has_not_found_is_nan(lost, monkeypatch):
    """As with few products: then nothing may have converged, and the other search's eigenvalues say nothing of this end."""
    monkeypatch.setattr("ganexp.dynamics.eigenvalues.DENSE", 0)
    search, none = scipy.sparse.linalg.eigs, np.zeros(0, np.complex128)

    def eigs(*arguments, which, **settings):
        if which == lost:
            raise scipy.sparse.linalg.ArpackNoConvergence("%s", none, none)
        return search(*arguments, which=which, **settings)

    monkeypatch.setattr(scipy.sparse.linalg, "eigs", eigs)
    gan = tiny_gan(CASES["nonsaturating"])
    with still(gan, *at(gan)) as field:
        found = spectrum(field, count=4)
    assert len(found.eigenvalues)
    assert np.isnan(found.smallest_real) == (lost == "SR")
    assert np.isnan(found.rotation) == (lost == "LM")
    row = figures(found)
    assert ("dynamics/smallest_real" in row, "dynamics/rotation" in row) == (lost == "LM", lost == "SR")


def test_where_a_hinge_loss_is_flat_the_block_of_d_is_zero(monkeypatch):
    monkeypatch.setattr("ganexp.dynamics.eigenvalues.DENSE", 0)
    gan = tiny_gan(
        CASES["hinge"], wrap=lambda d: nn.Sequential(nn.Flatten(), nn.Linear(2, 70), nn.Linear(70, 1), nn.Flatten(0))
    )
    gan.discriminator.double()
    with torch.no_grad():
        for one in gan.generator.parameters():
            one.zero_()
        for one in gan.discriminator.parameters():
            one.fill_(1.0)
        gan.discriminator[2].bias.fill_(-75.0)  # fakes, at 0, score -5; reals, about (1, 1), some 135
    with still(gan, *at(gan)) as field:
        assert spectrum(field).d == (0.0, 0.0)


class Counting(nn.Module):
    """Counts its passes in a buffer that each of them replaces."""

    def __init__(self):
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes = self.passes + 1
        return x


def test_looking_moves_nothing():
    """Batch norm, dropout, a buffer of a layer's own and a penalty with a stream of its own: what could move."""
    gan = tiny_gan(CASES["wgan_gp"])
    gan.generator.layers.insert(1, nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(0.5), Counting()).double())
    before = copy.deepcopy([gan.state_dict(), torch.get_rng_state()])
    with still(gan, *at(gan)) as field:
        assert spectrum(field, count=2).eigenvalues.size
    after = [gan.state_dict(), torch.get_rng_state()]
    assert repr(before) == repr(after)
    torch.testing.assert_close(before[0], after[0], rtol=0, atol=0)


def test_the_angle_along_a_path_to_a_minimum_turns_over_there():
    """Of v = z − z*, which is the gradient of a bowl."""
    gan = tiny_gan(CASES["nonsaturating"])
    end = [torch.randn_like(one) for one in (*gan.d_parameters, *gan.g_parameters)]
    start = [one.detach().clone() for one in (*gan.d_parameters, *gan.g_parameters)]

    def v():
        return [one.detach() - there for one, there in zip((*gan.d_parameters, *gan.g_parameters), end, strict=True)]

    assert path_angle(gan, start, end, [0.0, 0.5, 1.5], v) == pytest.approx([1, 1, -1])
    assert path_angle(gan, start, start, [0.0], v) == [None]
    assert all(map(torch.equal, start, (*gan.d_parameters, *gan.g_parameters)))
