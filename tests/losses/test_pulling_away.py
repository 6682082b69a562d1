"""EBGAN's pulling-away term (Zhao et al. 2016, section 2.4), on the code that D's encoder has for the fakes."""

import numpy as np
import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.config.schema import ConfigError
from ganexp.losses import EBGAN
from ganexp.losses.ebgan import alike
from ganexp.networks import BEGANDiscriminator
from tests.composing import GAMES, composed, options
from tests.training.test_resume import assert_same, state

SMALL = ["batch_size=4", "latent_dim=3", "wandb.mode=disabled", "device=cpu", "sample_every=0", "dataset.image_size=16"]
EBGAN_PT = [
    *("generator=began", "discriminator=began", "loss=ebgan", "generator.width=2", "discriminator.width=2"),
    *("loss.pulling_away=0.1", "discriminator.returns_code=true", "discriminator.code_dim=5"),
]


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


@pytest.mark.parametrize(
    "strategy",
    [pytest.param(name, marks=pytest.mark.slow if name in ("unrolled", *GAMES) else ()) for name in options("strategy")],
)
def test_every_strategy_trains_or_refuses(strategy):
    cfg = composed(*SMALL, *EBGAN_PT, f"strategy={strategy}", "iterations=2")
    refused = {
        "one_stage": "exact only for losses of one score per image, and EBGAN also reads D's code",
        "competitive": "needs a zero-sum loss, in which G maximises what D minimises, but EBGAN is not",
    }
    if strategy in refused:
        with pytest.raises(ConfigError, match=refused[strategy]):
            check(cfg)
        return
    made = build(cfg)
    before = [p.detach().clone() for p in made.gan.generator.parameters()]
    made.fit()
    assert all(p.isfinite().all() for p in made.gan.generator.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, made.gan.generator.parameters(), strict=True))


@pytest.mark.parametrize("further", [[], pytest.param(["precision=bf16"], marks=pytest.mark.slow)])
def test_it_resumes_to_the_last_bit(further, tmp_path):
    settings = [*SMALL, *EBGAN_PT, *further, "checkpoint_every=2"]
    whole = build(composed(*settings, "iterations=4"))
    whole.fit()
    build(composed(*settings, "iterations=2"), tmp_path).fit()
    resumed = build(composed(*settings, "iterations=4"), tmp_path, checkpoint=tmp_path / "checkpoints" / "last.pt")
    resumed.fit()
    assert_same(*({k: v for k, v in state(made).items() if k != "checkpoints"} for made in (resumed, whole)))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["discriminator.returns_code=false"],
            "loss=ebgan reads the code of each sample, and the discriminator returns scores alone",
        ),
        (
            ["loss.pulling_away=0"],
            "loss=ebgan reads scores alone, and the discriminator returns the code of each sample: choose",
        ),
        (["loss.pulling_away=-1"], r"loss\.pulling_away should be greater than or equal to 0, not -1"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(overrides, said):
    with pytest.raises(ConfigError, match=said):
        check(composed(*SMALL, *EBGAN_PT, *overrides))


def test_without_it_ebgan_works_as_typed():
    check(composed(*SMALL, "loss=ebgan", "discriminator=began"))
