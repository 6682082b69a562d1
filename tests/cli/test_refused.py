"""What does not fit is refused before data are read or memory is taken, in one sentence."""

import pytest
import torch
from torch import nn

from ganexp.config.check import check
from ganexp.data import Digits
from ganexp.facts import UserError
from tests.composing import composed, options


def test_checking_takes_no_memory_and_reads_nothing(monkeypatch):
    monkeypatch.setattr(Digits, "load", lambda self: pytest.fail("the data were read"))
    cfg = composed("generator.width=32768", "discriminator.width=32768", "latent_dim=65536", "device=cpu")
    with pytest.raises(UserError, match="GiB: lower"):  # 5 TB of weights
        check(cfg)


def test_checking_leaves_the_random_stream_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    check(composed())
    assert torch.equal(torch.rand(3), expected)


class Flat(nn.Module):
    def __init__(self, latent_dim, shape):
        super().__init__()
        self.layer = nn.Linear(latent_dim, 7)

    def forward(self, z):
        return self.layer(z)


class Stubborn(Flat):
    def __init__(self, latent_dim, shape):
        super().__init__(100, shape)


class Narrow(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer = nn.Linear(32 * 32, 1)

    def forward(self, x):
        return self.layer(x.flatten(1)).flatten()


class TwoScores(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer = nn.LazyLinear(2)

    def forward(self, x):
        return self.layer(x.flatten(1))


class Column(TwoScores):
    def forward(self, x):
        return super().forward(x)[:, :1]


def test_networks_of_ones_own_are_checked_too():
    cfg = composed()
    cfg.generator = {"_target_": f"{__name__}.Flat"}
    with pytest.raises(UserError, match=r"Flat makes samples of shape \(7,\), and those of dataset=digits have \(1, 32, 32\)"):
        check(cfg, trust="tests")
    cfg.generator = {"_target_": f"{__name__}.Stubborn"}
    with pytest.raises(UserError, match=r"Stubborn cannot run on latents of latent_dim=64 \(.*\): choose another latent_dim"):
        check(cfg, trust="tests")
    cfg = composed("generator=mlp", "dataset.image_size=24")
    cfg.discriminator = {"_target_": f"{__name__}.Narrow"}
    with pytest.raises(UserError, match=r"Narrow cannot run on samples of shape \(1, 24, 24\), as those of dataset=digits \("):
        check(cfg, trust="tests")
    cfg = composed()
    for name, remedy in {"TwoScores": "end it with a layer", "Column": r"end it with \.squeeze\(1\)"}.items():
        cfg.discriminator = {"_target_": f"{__name__}.{name}"}
        with pytest.raises(UserError, match=rf"^discriminator=\S+{name} does not fit: .* one score per sample.*{remedy}"):
            check(cfg, trust="tests")


class LooksAtValues(nn.Module):
    output = "energy"

    def __init__(self, shape):
        super().__init__()
        self.rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]

    def forward(self, x):
        return x.abs().flatten(1).mean(1)


def test_a_network_that_cannot_be_tried_without_values_is_let_through():
    cfg = composed("loss=began")
    cfg.discriminator = {"_target_": f"{__name__}.LooksAtValues"}
    plan = check(cfg, trust="tests")
    assert any("not checked beforehand" in warning for warning in plan.warnings)
    assert plan.demands is None


def test_every_wrapper_is_tried_without_values():
    of_terms = ["dataset=self", "generator=unet", "term=[l1]"]
    for wrapper in options("wrapper"):
        plan = check(composed(f"wrapper=[{wrapper}]", *(of_terms if wrapper == "pretrain" else [])))
        assert not any("not checked beforehand" in warning for warning in plan.warnings), wrapper


def test_what_such_a_network_returns_is_checked_nevertheless():
    cfg = composed()
    cfg.discriminator = {"_target_": f"{__name__}.LooksAtValues"}
    with pytest.raises(UserError, match="returns energy scores"):
        check(cfg, trust="tests")


def test_gradient_penalty_warns_about_batch_norm():
    (warning,) = check(composed("loss=wgan_gp", "discriminator.batch_norm=true")).warnings
    assert "without batch norm" in warning
