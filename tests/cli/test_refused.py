"""What does not fit is refused before data are read or memory is taken, in one sentence."""

import pytest
import torch
from torch import nn

from ganexp.config.check import check
from ganexp.config.schema import ConfigError
from ganexp.data import Digits
from tests.composing import composed

REFUSED = [
    # overrides, and what the sentence must name: the key, and the remedy
    (["cuda_graph=true", "device=cpu"], "cuda_graph=true needs a GPU, but device=cpu is not one: choose cuda_graph=auto."),
    (["cuda_graph=maybe"], "cuda_graph should be auto, true or false, not maybe."),
    (["channels_last=null"], "channels_last should be auto, true or false, not null."),
    (["threads=0"], "threads should be auto or an integer from 1 to 1024, not 0."),
    (["workers=x"], "workers should be auto or an integer from 0 to 256, not x."),
    (
        ["precision=tf32", "device=cpu"],
        "precision=tf32 is a format of GPUs since Ampere, which cpu is not; choose",
    ),
    (["feed=lazy"], "feed should be auto, resident or streamed, not lazy."),
    (
        ["flip=true", "dataset=ring", "generator=mlp", "discriminator=mlp"],
        "flip=true mirrors images, and dataset=ring has none",
    ),
    (["compile=true", "penalty=gradient_penalty"], "penalty.gradient_penalty differentiates gradients, which compiled"),
    (
        ["compile=true", "strategy=unrolled", "wrapper=[lookahead]", "wrapper.lookahead.every=3"],
        "strategy=unrolled differentiates gradients, which compiled",
    ),
    (["d_steps=0"], "d_steps should be greater than or equal to 1, not 0"),
    (["g_steps=1.5"], "g_steps should be a valid integer, not 1.5"),
    (["d_steps=true"], "d_steps should be a valid integer, not true"),
    (["batch_size=many"], "batch_size should be a valid integer, not many"),
    (["batch_size=null"], "batch_size should be a valid integer, not null"),
    (["iterations=-5"], "iterations should be greater than or equal to 1, not -5"),
    (["redundant_gradients=3"], "redundant_gradients should be a valid boolean, not 3"),
    (["precision=fp8"], "precision should be auto, fp32, tf32, bf16 or fp64, not fp8"),
    (["device=tpu"], "device should be auto, cpu, cuda or cuda:N, not tpu"),
    (["device=cuda:99"], "choose device=auto"),
    (["prior=cauchy"], "prior should be normal or uniform, not cauchy"),
    (["ema=1.5"], "ema should be off or a decay between 0 and 1, such as 0.999, not 1.5"),
    (["ema=on"], "ema should be off or a decay"),
    (["seed=-1"], "seed should be greater than or equal to 0, not -1"),
    (["wandb.mode=loud"], "wandb.mode should be auto, online, offline or disabled, not loud"),
    (["wandb.tags=baseline"], "wandb.tags should be a valid array, not baseline"),
    (["+d_step=2"], "d_step is no key of the configuration; did you mean d_steps?"),
    (["+wandb.projekt=x"], "wandb.projekt is no key of the configuration; did you mean project?"),
    (["+loss.gama=0.3"], "loss.gama is no key of the configuration"),
    (["+generator.widht=3"], "generator.widht is no key of the configuration; did you mean width?"),
    (["generator.width=wide"], "generator.width should be a valid integer, not wide"),
    (["generator.width=0"], "generator.width should be greater than or equal to 1, not 0"),
    (["discriminator.batch_norm=maybe"], "discriminator.batch_norm should be a valid boolean, not maybe"),
    (["loss=began", "discriminator=began", "loss.gamma=3"], "loss.gamma should be less than or equal to 1, not 3"),
    (["loss=wgan", "penalty.weight_clipping.bound=0"], "penalty.weight_clipping.bound should be greater than 0, not 0"),
    (["optimizer.lr=-1"], "optimizer.lr should be greater than 0, not -1"),
    (["optimizer.lr=inf"], "optimizer.lr should be a finite number, not inf"),
    (["optimizer.lr=nan"], "optimizer.lr should be a finite number, not nan"),
    (["optimizer.betas=[0.5]"], "optimizer.betas should have more values, not [0.5]."),
    (["optimizer.betas=[0.5,1.0]"], "optimizer.betas should be less than 1, not [0.5, 1.0]"),
    (["+optimizer.lrr=1"], "optimizer.lrr is no key of the configuration; did you mean lr?"),
    (["dataset=image_folder"], "dataset.path must be given"),
    (["+generator.shape=[3]"], "generator.shape is no key of the configuration"),
    (
        ["dataset=image_folder", "dataset.path=/nowhere"],
        "dataset=image_folder: path should be a folder of images or a zip archive, and /nowhere is neither.",
    ),
    (
        ["dataset.image_size=28"],
        "generator=dcgan: shape should be one of 16×16, 32×32, 64×64, …, not 28×28; set dataset.image_size",
    ),
    (["dataset=ring"], "choose the mlp networks"),
    (["dataset=ring", "generator=mlp"], "discriminator=dcgan: shape should be that of an image"),
    (["loss=began"], "choose discriminator=began or loss=nonsaturating"),
    (["discriminator=began"], "choose discriminator=dcgan or loss=began"),
    (["discriminator=began", "loss=softmaxgan", "penalty=gradient_penalty"], "choose penalty=[]"),
    (["loss._target_=ganexp.losses.Nothing"], "loss._target_=ganexp.losses.Nothing cannot be imported"),
    (["wrapper=[lookahead]", "wrapper.lookahead.alpha=2"], "wrapper.lookahead.alpha should be less than or equal to 1, not 2"),
    (
        ["wrapper=[lookahead]", "+wrapper.lookahead.evry=2"],
        "wrapper.lookahead.evry is no key of the configuration; did you mean every?",
    ),
    (["strategy=one_stage", "discriminator.batch_norm=true"], "take strategy=joint, or a discriminator without it"),
    (
        ["strategy=competitive"],
        "competitive needs a zero-sum loss, in which G maximises what D minimises, but NonSaturating is not",
    ),
    (
        ["strategy=competitive", "loss=minimax", "strategy.rate=-1"],
        "strategy.rate should be greater than or equal to 0, not -1",
    ),
    (["strategy=consensus", "strategy.gamma=-1"], "strategy.gamma should be greater than or equal to 0, not -1"),
    (["strategy=symplectic", "compile=true"], "strategy=symplectic differentiates gradients, which compiled networks cannot"),
    (["strategy=consensus", "accumulate=2", "generator.batch_norm=false"], "which accumulate cannot: choose accumulate=1"),
    (["strategy=unrolled", "strategy.k=-1"], "strategy.k should be greater than or equal to 0, not -1"),
    (["strategy=unrolled", "strategy.rate=0"], "strategy.rate should be greater than 0, not 0"),
    (["optimizer=sgd", "optimizer.momentum=-0.5"], "optimizer.momentum should be greater than or equal to 0, not -0.5"),
    (["device=cuda:01"], "device should be auto, cpu, cuda or cuda:N"),
    (["wandb.project=a/b"], "wandb.project should be 1 to 128 characters without"),
    (["wandb.tags=['']"], "wandb.tags"),
    (["data_root="], "data_root should have at least 1 character"),
    (["generator=mlp", "generator.depth=1000000000"], "generator.depth should be less than or equal to 1000"),
    (["dataset=ring", "dataset.modes=1000000000000"], "dataset.modes should be less than or equal to 10000"),
    (["dataset=grid", "dataset.side=1000000"], "dataset.side should be less than or equal to 100"),
    (["loss._target_=torch.nn.ReLU"], "must be a ganexp.losses.Loss"),
    (["loss._target_=builtins.int"], "loss._target_=builtins.int"),
    (["loss.name=../../evil"], "loss.name should be letters"),
    (["strategy._target_=math.pi"], "strategy._target_=math.pi must be a function of (gan, reals, *, d_steps, g_steps)"),
]


@pytest.mark.parametrize(("overrides", "sentence"), REFUSED, ids=[" ".join(overrides) for overrides, _ in REFUSED])
def test_mistakes_are_refused_in_one_sentence_that_names_the_key_and_the_remedy(overrides, sentence):
    cfg = composed(*overrides)
    with pytest.raises(ConfigError) as refusal:
        check(cfg, trust=cfg.trust)
    said = str(refusal.value)
    assert any(part in said for part in sentence.split("|")), said
    assert "\n" not in said
    assert said.endswith((".", "?"))


def test_checking_takes_no_memory_and_reads_nothing(monkeypatch):
    monkeypatch.setattr(Digits, "load", lambda self: pytest.fail("the data were read"))
    cfg = composed("generator.width=32768", "discriminator.width=32768", "latent_dim=65536", "device=cpu")
    with pytest.raises(ConfigError, match="GiB: lower"):  # 5 TB of weights
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


def test_networks_of_ones_own_are_checked_too():
    cfg = composed()
    cfg.generator = {"_target_": f"{__name__}.Flat"}
    with pytest.raises(
        ConfigError, match=r"Flat makes samples of shape \(7,\), and those of dataset=digits have \(1, 32, 32\)"
    ):
        check(cfg, trust="tests")
    cfg.generator = {"_target_": f"{__name__}.Stubborn"}
    with pytest.raises(ConfigError, match=r"Stubborn cannot run on latents of latent_dim=64 \(.*\): choose another latent_dim"):
        check(cfg, trust="tests")
    cfg = composed("generator=mlp", "dataset.image_size=24")
    cfg.discriminator = {"_target_": f"{__name__}.Narrow"}
    with pytest.raises(
        ConfigError, match=r"Narrow cannot run on samples of shape \(1, 24, 24\), as those of dataset=digits \("
    ):
        check(cfg, trust="tests")
    cfg = composed()
    cfg.discriminator = {"_target_": f"{__name__}.TwoScores"}
    with pytest.raises(ConfigError, match="one score per sample"):
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


def test_what_such_a_network_returns_is_checked_nevertheless():
    cfg = composed()
    cfg.discriminator = {"_target_": f"{__name__}.LooksAtValues"}
    with pytest.raises(ConfigError, match="returns energy scores"):
        check(cfg, trust="tests")


def test_gradient_penalty_warns_about_batch_norm():
    (warning,) = check(composed("loss=wgan_gp", "discriminator.batch_norm=true")).warnings
    assert "without batch norm" in warning
