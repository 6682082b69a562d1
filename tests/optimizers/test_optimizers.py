"""Optimisers against their recurrences in NumPy."""

import numpy as np
import pytest
import torch

from ganexp.config.check import check
from ganexp.optimizers import NegativeMomentum, NormalizedSGD, OptimisticAdam, adam, rmsprop, sgd
from tests.composing import composed


def gradients(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(3, 2)) for _ in range(n)]


def run(optimizer, parameter, steps):
    for gradient in steps:
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
    return parameter.detach().numpy()


def parameter():
    return torch.nn.Parameter(torch.ones(3, 2, dtype=torch.float64))


def test_optimistic_adam_follows_its_algorithm():
    p = parameter()
    found = run(OptimisticAdam([p], lr=0.1, betas=(0.5, 0.9), eps=1e-6), p, gradients(20))
    theta, m, v, u = np.ones((3, 2)), 0.0, 0.0, 0.0
    for t, g in enumerate(gradients(20), 1):
        m, v = 0.5 * m + 0.5 * g, 0.9 * v + 0.1 * g**2
        new = (m / (1 - 0.5**t)) / (np.sqrt(v / (1 - 0.9**t)) + 1e-6)
        theta, u = theta - 2 * 0.1 * new + 0.1 * u, new
    np.testing.assert_allclose(found, theta, rtol=1e-12)


@pytest.mark.parametrize("beta", [-0.5, 0.0, 0.9])
def test_negative_momentum_follows_the_heavy_ball(beta):
    p = parameter()
    found = run(NegativeMomentum([p], lr=0.1, momentum=beta), p, gradients(20))
    theta, velocity = np.ones((3, 2)), 0.0
    for g in gradients(20):
        velocity = beta * velocity - 0.1 * g
        theta = theta + velocity
    np.testing.assert_allclose(found, theta, rtol=1e-12)


def test_normalised_steps_have_the_length_of_the_rate_over_all_parameters():
    first, second = parameter(), parameter()
    optimizer = NormalizedSGD([{"params": [first]}, {"params": [second]}], lr=0.1)
    a, b = np.ones((3, 2)), np.ones((3, 2))
    for g, h in [*zip(gradients(9), gradients(9, seed=1), strict=True), (np.zeros((3, 2)), np.zeros((3, 2)))]:
        first.grad, second.grad = torch.from_numpy(g), torch.from_numpy(h)
        optimizer.step()
        norm = np.sqrt((g**2).sum() + (h**2).sum()) or 1.0
        a, b = a - 0.1 * g / norm, b - 0.1 * h / norm
    np.testing.assert_allclose([first.detach(), second.detach()], [a, b], rtol=1e-12)


def test_parameters_without_a_gradient_stay():
    for make in (OptimisticAdam, NegativeMomentum, NormalizedSGD):
        moving, still = parameter(), parameter()
        run(make([moving, still], lr=0.1), moving, gradients(3))
        in_groups = parameter()
        run(make([{"params": [in_groups]}, {"params": [still]}], lr=0.1), in_groups, gradients(3))
        assert torch.equal(still, parameter())
        assert torch.equal(in_groups, moving)


def test_state_can_be_saved_and_loaded():
    for make in (OptimisticAdam, NegativeMomentum, NormalizedSGD):
        whole, first, second = parameter(), parameter(), parameter()
        run(make([whole], lr=0.1), whole, gradients(10))
        before = make([first], lr=0.1)
        run(before, first, gradients(10)[:5])
        second.data.copy_(first.data)
        after = make([second], lr=0.1)
        after.load_state_dict(before.state_dict())
        run(after, second, gradients(10)[5:])
        np.testing.assert_allclose(second.detach().numpy(), whole.detach().numpy(), rtol=1e-12)


def views():
    whole = torch.arange(12.0, dtype=torch.float64).view(3, 4)
    return {"every second column": whole[:, ::2], "transposed": whole.t(), "channels last": torch.ones(2, 3, 4, 4).double()}


@pytest.mark.parametrize("name", views())
def test_adam_is_right_for_parameters_in_any_layout(name):
    """The fused kernel takes memory for a flat array, and would move what lies between the columns, or the wrong entries."""
    ends = []
    for fused in (True, False):
        view = views()[name]
        p = torch.nn.Parameter(view.to(memory_format=torch.channels_last) if view.dim() == 4 else view)
        optimizer = adam([p], lr=0.1, fused=fused)
        for step in range(3):
            p.grad = torch.empty_like(p).copy_(torch.arange(p.numel()).view(p.shape) * 1.7 - step)
            optimizer.step()
        ends.append(p.detach().clone())
    torch.testing.assert_close(*ends, rtol=1e-12, atol=0)


@pytest.mark.parametrize("fused", [True, False])
def test_weight_decay_is_a_gradient(fused):
    found = {}
    for name, make in {"adam": adam, "rmsprop": rmsprop, "sgd": sgd}.items():
        p = parameter()
        settings = {"fused": fused} if name == "adam" else {}
        found[name] = run(make([p], lr=0.1, weight_decay=0.3, **settings), p, gradients(9))
    a, r, s = np.ones((3, 3, 2))
    m, v, u = np.zeros((3, 3, 2))
    for t, gradient in enumerate(gradients(9), 1):
        g = gradient + 0.3 * a
        m, v = 0.5 * m + 0.5 * g, 0.999 * v + 0.001 * g**2
        a = a - 0.1 * (m / (1 - 0.5**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        g = gradient + 0.3 * r
        u = 0.99 * u + 0.01 * g**2
        r = r - 0.1 * g / (np.sqrt(u) + 1e-8)
        s = s - 0.1 * (gradient + 0.3 * s)
    for name, theta in {"adam": a, "rmsprop": r, "sgd": s}.items():
        np.testing.assert_allclose(found[name], theta, rtol=1e-10)


def test_weight_decay_is_a_setting_of_either_network():
    choices = check(composed("+optimizer.d.weight_decay=1e-3", "device=cpu")).choices
    decay = {key: choices[f"optimizer.{key}"].make([parameter()]).param_groups[0]["weight_decay"] for key in "gd"}
    assert decay == {"g": 0, "d": 1e-3}
