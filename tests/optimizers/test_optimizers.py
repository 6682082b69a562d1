"""Optimisers against their recurrences in NumPy."""

import numpy as np
import pytest
import torch

from ganexp.config.check import check
from ganexp.optimizers import (
    ComplexMomentum,
    Muon,
    NegativeMomentum,
    NormalizedSGD,
    OptimisticAdam,
    ScheduleFree,
    adam,
    adamw,
    rmsprop,
    sgd,
)
from ganexp.optimizers.muon import orthogonalised
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


def test_complex_momentum_turns_its_velocity():
    p = parameter()
    found = run(ComplexMomentum([p], lr=0.1, momentum=0.7, angle=0.6), p, gradients(20))
    theta, velocity = np.ones((3, 2)), np.zeros((3, 2), complex)
    for g in gradients(20):
        velocity = 0.7 * np.exp(0.6j) * velocity - g
        theta = theta + 0.1 * velocity.real
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
    for make in (OptimisticAdam, NegativeMomentum, NormalizedSGD, ComplexMomentum, Muon, ScheduleFree):
        moving, still = parameter(), parameter()
        run(make([moving, still], lr=0.1), moving, gradients(3))
        if make is Muon:  # makes groups of its own
            assert torch.equal(still, parameter())
            continue
        in_groups = parameter()
        run(make([{"params": [in_groups]}, {"params": [still]}], lr=0.1), in_groups, gradients(3))
        assert torch.equal(still, parameter())
        assert torch.equal(in_groups, moving)


def test_state_can_be_saved_and_loaded():
    for make in (OptimisticAdam, NegativeMomentum, NormalizedSGD, ComplexMomentum, Muon, ScheduleFree):
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
        settings = {"fused": fused, "betas": (0.5, 0.999)} if name == "adam" else {}
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


@pytest.mark.parametrize("fused", [True, False])
def test_decoupled_decay_shrinks_weights_but_not_biases(fused):
    weight, bias = parameter(), torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    optimizer = adamw([bias, weight], lr=0.1, betas=(0.5, 0.999), weight_decay=0.3, fused=fused)
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert decay == {id(weight): 0.3, id(bias): 0.0}
    theta, m, v = np.ones((3, 2)), np.zeros((3, 2)), np.zeros((3, 2))
    b, n, w = np.ones(2), np.zeros(2), np.zeros(2)
    for t, g in enumerate(gradients(9), 1):
        weight.grad, bias.grad = torch.from_numpy(g), torch.from_numpy(g[0])
        optimizer.step()
        m, v = 0.5 * m + 0.5 * g, 0.999 * v + 0.001 * g**2
        n, w = 0.5 * n + 0.5 * g[0], 0.999 * w + 0.001 * g[0] ** 2
        theta = theta * (1 - 0.1 * 0.3) - 0.1 * (m / (1 - 0.5**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        b = b - 0.1 * (n / (1 - 0.5**t)) / (np.sqrt(w / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(weight.detach(), theta, rtol=1e-10)
    np.testing.assert_allclose(bias.detach(), b, rtol=1e-10)


def of_numpy(g):
    """Return what five of Newton and Schulz's iterations make of a matrix, by its singular values."""
    u, s, v = np.linalg.svd(g, full_matrices=False)
    s = s / np.linalg.norm(s)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u * s @ v


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_muon_turns_convolutions_and_leaves_the_rest_to_adam(layout):
    draw = np.random.default_rng(3)
    shapes = {"convolution": (3, 2, 2, 2), "tall": (9, 1, 2, 2), "last": (1, 4), "bias": (4,)}
    theta = {name: draw.normal(size=shape) for name, shape in shapes.items()}
    moved = {name: torch.nn.Parameter(torch.from_numpy(one.copy())) for name, one in theta.items()}
    for name in ("convolution", "tall"):
        moved[name].data = moved[name].data.to(memory_format=layout)
    optimizer = Muon(moved.values(), lr=0.1, momentum=0.8, weight_decay=0.3, betas=(0.5, 0.9))
    m, v = ({name: np.zeros(shape) for name, shape in shapes.items()} for _ in range(2))
    for t in range(1, 8):
        for name, p in moved.items():
            g = draw.normal(size=shapes[name])
            p.grad = torch.empty_like(p).copy_(torch.from_numpy(g))
            if name in ("convolution", "tall"):
                m[name] = 0.8 * m[name] + 0.2 * g
                ahead = (0.2 * g + 0.8 * m[name]).reshape(len(g), -1)
                step = 0.2 * np.sqrt(max(ahead.shape)) * of_numpy(ahead).reshape(g.shape)
                theta[name] = theta[name] * (1 - 0.1 * 0.3)
            else:
                m[name], v[name] = 0.5 * m[name] + 0.5 * g, 0.9 * v[name] + 0.1 * g**2
                step = m[name] / (1 - 0.5**t) / (np.sqrt(v[name] / (1 - 0.9**t)) + 1e-8)
            theta[name] = theta[name] - 0.1 * step
        optimizer.step()
    for name, p in moved.items():
        np.testing.assert_allclose(p.detach().numpy(), theta[name], rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_muon_makes_of_singular_values_is_as_it_says(dtype):
    draw = np.random.default_rng(0)
    u, v = (np.linalg.qr(draw.normal(size=(48, 48)))[0] for _ in range(2))
    s = np.geomspace(1e-4, 1, 48)
    s /= np.linalg.norm(s)
    made = np.diag(u.T @ orthogonalised(torch.from_numpy(u * s @ v.T).to(dtype)).double().numpy() @ v)
    large = s >= 0.0015
    assert made[large].min() > 0.675
    assert made.max() < 1.21
    if dtype == torch.float64:  # the noise of bfloat16 is larger than what it makes of small ones
        assert made[~large] / s[~large] == pytest.approx(467.5, abs=17.5)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has one since 2.9")
def test_muon_is_torchs_for_matrices():
    ends = []
    for make in (
        lambda ps: Muon(ps, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda ps: torch.optim.Muon(ps, lr=0.1, momentum=0.9, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    ):
        moved = [torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(2, 7))]
        optimizer, draw = make(moved), torch.Generator().manual_seed(0)
        for _ in range(9):
            for p in moved:
                p.grad = torch.randn(p.shape, generator=draw)
            optimizer.step()
        ends.append([p.detach() for p in moved])
    torch.testing.assert_close(*ends, rtol=1e-5, atol=1e-6)
