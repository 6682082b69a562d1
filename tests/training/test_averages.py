"""Averages of weights against their formulae over saved weights; buffers are followed wherever they are."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from ganexp import build, load, load_discriminator
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.networks import MLPGenerator
from ganexp.sampling import saved
from ganexp.training import EMA, PowerAverage
from ganexp.training.averages import Snapshot, gamma_of, post_hoc
from tests.composing import composed
from tests.small_runs import SMALL, assert_resumes
from tests.tiny import iterate


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
    ema = EMA(generator, decay=0.9)
    for n in (4, 7):
        generator(torch.randn(n, 3))
        ema.update()
        assert torch.equal(ema.generator.seen, generator.seen)
        assert torch.equal(ema.generator.last, generator.last)
        assert ema.generator.absent is None
    assert ema.generator.last is not generator.last


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
def test_a_network_whose_weights_a_hook_computes_is_averaged_too():
    generator = torch.nn.utils.weight_norm(nn.Linear(3, 2))
    z = torch.randn(4, 3)
    ema = EMA(generator, decay=0.9)
    assert torch.equal(ema.generator(z), generator(z))
    with torch.no_grad():
        generator.weight_g.mul_(2)
    ema.update()
    assert ema.generator.weight_g.lt(generator.weight_g).all()
    assert not torch.equal(ema.generator(z), generator(z))


def first(average):
    return next(average.generator.parameters()).numpy()


def test_the_power_function_average_weighs_weights_by_a_power_of_time():
    torch.manual_seed(0)
    generator = MLPGenerator(3, (2,), width=4).double()
    average, saved = PowerAverage(generator, width=0.1), []
    for _ in range(400):
        for p in generator.parameters():
            p.data.add_(torch.randn_like(p) / 10)
        saved.append(next(generator.parameters()).detach().numpy().copy())
        average.update()
    t = np.arange(1, 401.0)
    shares = t ** (average.gamma + 1) - (t - 1) ** (average.gamma + 1)  # the integral of (γ + 1) τ^γ over each iteration
    np.testing.assert_allclose(first(average), np.tensordot(shares / shares.sum(), np.array(saved), 1), rtol=1e-10)


@pytest.mark.parametrize("width", [0.05, 0.1, 0.25])
def test_gamma_belongs_to_the_width(width):
    gamma = gamma_of(width)
    assert math.sqrt((gamma + 1) / ((gamma + 2) ** 2 * (gamma + 3))) == pytest.approx(width, rel=1e-12)
    shares = np.linspace(0, 1, 1_000_001) ** gamma
    place = np.linspace(0, 1, 1_000_001)
    mean = (shares * place).sum() / shares.sum()
    assert math.sqrt((shares * (place - mean) ** 2).sum() / shares.sum()) == pytest.approx(width, rel=1e-4)


def test_a_width_chosen_afterwards_gives_nearly_the_average_that_was_not_kept():
    """Ten snapshots of two widths, as in the paper; one of them alone is several times as far away."""
    torch.manual_seed(0)
    generator = MLPGenerator(3, (2,), width=4).double()
    kept, other = [PowerAverage(generator, width=width) for width in (0.05, 0.1)], PowerAverage(generator, width=0.07)
    snapshots = []
    for t in range(1, 501):
        for p in generator.parameters():
            p.data.add_(torch.randn_like(p) / 10)
        for average in (*kept, other):
            average.update()
        if t % 50 == 0:
            snapshots += [Snapshot(t, average.gamma, {"w": next(average.generator.parameters()).clone()}) for average in kept]
    rebuilt = post_hoc(snapshots, 500, 0.07)["w"].numpy()
    error = np.abs(rebuilt - first(other)).max()
    assert error < min(np.abs(first(average) - first(other)).max() for average in kept) / 10
    np.testing.assert_allclose(post_hoc(snapshots, 500, 0.1)["w"].numpy(), first(kept[1]), rtol=1e-6)
    with pytest.raises(ValueError, match="no snapshot"):
        post_hoc(snapshots, 49, 0.07)


def test_without_one_samples_come_from_the_generator_itself():
    trainer = build(composed(*SMALL, "average=none"))
    assert trainer.step.average.generator is trainer.gan.generator
    assert trainer.step.average.state_dict() == {}


@pytest.mark.parametrize(("start", "warned"), [(0, True), (2, True), (3, False), (7, False), (8, True)])
def test_an_average_of_less_than_two_iterations_or_of_almost_all_is_warned_of(start, warned):
    plan = check(composed(*SMALL, "iterations=9", "average=uniform", f"average.start={start}"))
    assert any(warning.startswith("average=uniform") for warning in plan.warnings) == warned


EVERY = {
    "ema": ["average.decay=0.3"],
    "uniform": ["average.start=2"],
    "power": [],
    "half_life": ["average=ema", "average.half_life=2"],
}


def shares(name, n):
    """Return how much the weights after each iteration count in the average after n of them."""
    keep = {
        "ema": lambda t: min(0.3, (1 + t) / (10 + t)),  # from the third iteration on, 0.3
        "uniform": lambda t: 1 - 1 / max(1, t - 2),
        "power": lambda t: (1 - 1 / t) ** (gamma_of(0.1) + 1),
        "half_life": lambda t: 0.5 ** (1 / 2),
    }[name]
    kept = np.array([keep(t) for t in range(1, n + 1)])
    return np.append(kept.prod(), [(1 - kept[i]) * kept[i + 1 :].prod() for i in range(n)])  # the first are those at the start


@pytest.mark.parametrize("name", EVERY)
def test_both_networks_are_averaged_by_the_formula(name):
    chosen = [*([f"average={name}"] if name != "half_life" else []), *EVERY[name], "average.of=both"]
    settings = [*SMALL, *chosen, "precision=fp64", "iterations=6"]
    trainer, weights = build(composed(*settings)), []
    networks = {"generator": trainer.gan.generator, "discriminator": trainer.gan.discriminator}
    for i in range(7):
        iterate(trainer, 1 if i else 0)
        weights.append({key: next(network.parameters()).detach().numpy().copy() for key, network in networks.items()})
    for key, average in trainer.step.average.networks().items():
        by_hand = np.tensordot(shares(name, 6), np.array([kept[key] for kept in weights]), 1)
        np.testing.assert_allclose(next(average.parameters()).numpy(), by_hand, rtol=1e-10)


def test_a_discriminator_is_loaded_averaged_or_not(tmp_path):
    trainer = build(composed(*SMALL, "average.of=both", "iterations=6"), tmp_path)
    trainer.fit()
    for averaged, network in ((True, trainer.step.average.networks()["discriminator"]), (False, trainer.gan.discriminator)):
        loaded = load_discriminator(tmp_path, averaged=averaged)
        assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), network.parameters(), strict=True))


def test_averages_of_both_networks_and_of_several_widths_resume(tmp_path):
    assert_resumes(tmp_path, [*SMALL, "average=power", "average.beside=[0.05,0.2]", "average.of=both"], 7, stop_after=4)


def test_a_generator_alone_has_no_discriminator_to_load(tmp_path):
    build(composed(*SMALL, "iterations=2"), tmp_path / "run").fit()
    saved.save(load(tmp_path / "run"), tmp_path / "saved")
    with pytest.raises(UserError, match="holds a generator alone"):
        load_discriminator(tmp_path / "saved")


def test_without_a_discriminator_there_is_none_to_average():
    with pytest.raises(ValueError, match="of=both"):
        EMA(MLPGenerator(3, (2,), width=4), of="both")
