"""Anchoring, against the recurrence of Yoon & Ryu on xy and a hand-written loop; and lookahead nested in itself."""

import numpy as np
import pytest
import torch

from ganexp.losses import WGAN
from ganexp.strategies import Extragradient, detach, joint
from ganexp.wrappers import Anchoring, Lookahead
from tests.strategies.dirac import REALS, dirac_gan
from tests.tiny import CASES, real_batches, state, tiny_gan

ETA = 0.3


def bilinear(strategy, iterations):
    """Return z = θ + iψ after each iteration on xy, by plain descent at rate η."""
    gan = dirac_gan(WGAN(), lambda parameters, lr: torch.optim.SGD(parameters, lr=ETA))
    with torch.no_grad():
        gan.generator.theta.fill_(1)
        gan.discriminator.psi.fill_(1)
    points = [1 + 1j]
    for _ in range(iterations):
        strategy(gan, REALS, d_steps=1, g_steps=1)
        points.append(complex(gan.generator.theta.item(), gan.discriminator.psi.item()))
    return np.array(points)


def test_around_extragradient_it_converges_as_on_paper():
    points = bilinear(Anchoring(Extragradient()), 200)
    z = [1 + 1j]
    for k in range(200):
        back = (z[0] - z[-1]) / (k + 2)
        ahead = z[-1] + back - 1j * ETA * z[-1]
        z.append(z[-1] + back - 1j * ETA * ahead)
    np.testing.assert_allclose(points, z, rtol=1e-11)
    assert abs(points[-1]) / abs(points[0]) == pytest.approx(0.0166, abs=5e-5)


def test_every_step_of_alternating_networks_is_drawn_back():
    """With momentum and Adam, whose states see the gradients alone, and with two steps of D."""
    gan, other = tiny_gan(CASES["nonsaturating"]), tiny_gan(CASES["nonsaturating"])
    wrapped, reals, theirs = Anchoring(detach), real_batches(), real_batches()
    start = (
        [p.detach().clone() for p in other.generator.parameters()],
        [p.detach().clone() for p in other.discriminator.parameters()],
    )

    def step(optimizer, objective, parameters, start, k):
        optimizer.zero_grad()
        objective.backward(inputs=parameters)
        with torch.no_grad():
            for p, first in zip(parameters, start, strict=True):
                p += (first - p) / (k + 2)
        optimizer.step()

    for k in range(6):
        wrapped(gan, reals, d_steps=2, g_steps=1)
        for _ in range(2):
            x, fake = next(theirs), other.generate(other.sample())
            objective = other.d_loss(x, type(fake)(fake.values.detach())).value
            step(other.optimizer_d, objective, [*other.discriminator.parameters()], start[1], k)
        step(other.optimizer_g, other.g_loss(None, fake).value, [*other.generator.parameters()], start[0], k)
    torch.testing.assert_close(state(gan), state(other), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_share_on_the_device_draws_back_by_the_same_bits_as_a_number(dtype):
    weights, start = ([torch.randn(size, dtype=dtype) for size in (1, 7, 300)] for _ in range(2))
    count = torch.zeros((), dtype=torch.float64)
    for k in range(1000):
        by_number, by_tensor = ([one.clone() for one in weights] for _ in range(2))
        torch._foreach_lerp_(by_number, start, 1 / (k + 2))
        torch._foreach_lerp_(by_tensor, start, [(1 / (count + 2)).to(dtype)] * 3)
        assert all(map(torch.equal, by_number, by_tensor))
        count += 1


@pytest.mark.parametrize(("inner", "outer", "alphas"), [(5, 5, (0.5, 0.5)), (3, 4, (0.25, 0.75))])
def test_nested_lookahead_contracts_by_its_closed_form(inner, outer, alphas):
    nested = Lookahead(Lookahead(joint, every=inner, alpha=alphas[0]), every=inner * outer, alpha=alphas[1])
    known = 1 - alphas[1] + alphas[1] * (1 - alphas[0] + alphas[0] * (1 - 1j * ETA) ** inner) ** outer
    points = bilinear(nested, 3 * inner * outer)[:: inner * outer]
    np.testing.assert_allclose(points[1:] / points[:-1], known, rtol=1e-11)
    if (inner, outer) == (5, 5):
        assert abs(known) == pytest.approx(0.42, abs=5e-3)
