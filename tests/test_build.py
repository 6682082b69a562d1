"""From configuration to trainer: everything under conf/ builds, what fits trains, what does not is refused."""

import itertools
import logging

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from ganexp import build
from ganexp.checking import check
from ganexp.config import ConfigError
from ganexp.data import Digits
from tests.composing import CONF, composed, options
from tests.data.test_data import write_idx
from tests.tiny import STRATEGIES

SMALL = ["generator.width=2", "discriminator.width=2", "batch_size=4", "latent_dim=3", "wandb.mode=disabled"]
GROUPS = ["dataset", "generator", "discriminator", "loss", "penalty", "strategy", "optimizer"]
POINTS = {"ring", "grid"}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return overrides that point every dataset at a tiny set on disk."""
    rng = np.random.default_rng(0)
    for name in ("MNIST", "FashionMNIST"):
        write_idx(tmp_path / name / "raw", rng.integers(0, 256, (9, 28, 28), dtype=np.uint8))
    Image.fromarray(rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(tmp_path / "image.png")

    class CIFAR:
        def __init__(self, **_):
            self.data = rng.integers(0, 256, (9, 32, 32, 3), dtype=np.uint8)

    monkeypatch.setattr("ganexp.data.CIFAR10.source", CIFAR)

    def overrides(dataset):
        further = {"image_folder": [f"dataset.path={tmp_path}", "dataset.image_size=16"], "fake": ["dataset.n=9"]}
        return [f"dataset={dataset}", f"data_root={tmp_path}", *further.get(dataset, [])]

    return overrides


def fits(loss, discriminator):
    """Say which losses suit which discriminators, by their papers."""
    if discriminator == "began":
        return loss in ("began", "softmaxgan")
    return loss != "began"


@pytest.mark.parametrize(("dataset", "network"), list(itertools.product(options("dataset"), options("generator"))))
def test_each_dataset_trains_with_each_network_that_fits_and_no_other(dataset, network, data):
    loss = "began" if network == "began" else "nonsaturating"
    choices = [*data(dataset), f"generator={network}", f"discriminator={network}", f"loss={loss}", *SMALL, "iterations=3"]
    if dataset in POINTS and network != "mlp":
        with pytest.raises(ConfigError, match="take the mlp networks"):
            build(composed(*choices))
        return
    trainer = build(composed(*choices))
    before = [p.detach().clone() for p in trainer.gan.generator.parameters()]
    summary = trainer.fit()
    assert summary["iteration"] == 3
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.gan.generator.parameters(), strict=True))
    assert all(torch.isfinite(p).all() for p in trainer.gan.generator.parameters())


@pytest.mark.parametrize(("loss", "discriminator"), list(itertools.product(options("loss"), options("discriminator"))))
def test_each_loss_takes_the_discriminators_it_has_a_meaning_for(loss, discriminator):
    cfg = composed(f"loss={loss}", f"discriminator={discriminator}", *SMALL)
    if fits(loss, discriminator):
        check(cfg)
    else:
        with pytest.raises(ConfigError, match=rf"discriminator={discriminator}.*choose "):
            check(cfg)


@pytest.mark.parametrize("loss", options("loss"))
@pytest.mark.parametrize("strategy", options("strategy"))
def test_each_loss_trains_under_each_strategy(loss, strategy):
    discriminator = "began" if loss == "began" else "mlp"
    cfg = composed(f"loss={loss}", f"strategy={strategy}", f"discriminator={discriminator}", *SMALL, "d_steps=2", "g_steps=3")
    cfg.iterations = 2
    trainer = build(cfg)
    trainer.fit()
    assert (trainer.gan.d_updates, trainer.gan.g_updates) == (4, 6)


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_is_named_as_its_file_and_explains_itself(group):
    for path in (CONF / group).glob("*.yaml"):
        assert composed(f"{group}={path.stem}")[group].name == path.stem
        assert path.read_text().startswith("# ")


@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_experiment_builds_and_trains(experiment):
    cfg = composed(f"experiment={experiment}", "wandb.mode=disabled")
    check(cfg)
    for side in ("generator", "discriminator"):
        cfg[side].width = 2
    if "image_size" in cfg.dataset:
        cfg.dataset.image_size = 16
    cfg.iterations = 2
    assert build(cfg).fit()["iteration"] == 2


@pytest.mark.parametrize(
    ("experiment", "expected"),
    [
        ("dcgan", {"batch_size": 128, "latent_dim": 100, "optimizer.lr": 2e-4, "optimizer.betas": [0.5, 0.999]}),
        ("began", {"batch_size": 16, "prior": "uniform", "loss.lambda_k": 1e-3, "optimizer.lr": 1e-4}),
        ("softmaxgan", {"strategy.name": "joint", "d_steps": 1, "g_steps": 2}),
        ("lsgan", {"loss.name": "lsgan", "optimizer.lr": 1e-3}),
        ("wgan", {"optimizer.name": "rmsprop", "optimizer.lr": 5e-5, "d_steps": 5, "penalty.bound": 0.01}),
        ("wgan_gp", {"optimizer.betas": [0.0, 0.9], "d_steps": 5, "penalty.weight": 10.0, "discriminator.batch_norm": False}),
    ],
)
def test_experiments_have_their_papers_settings(experiment, expected):
    from omegaconf import OmegaConf

    cfg = composed(f"experiment={experiment}")
    assert {key: OmegaConf.select(cfg, key) for key in expected} == expected


def test_an_experiment_can_be_overridden_from_the_command_line():
    cfg = composed("experiment=wgan_gp", "strategy=joint", "loss=hinge", "penalty=none", "d_steps=2", "optimizer.d.lr=4e-4")
    assert (cfg.strategy.name, cfg.loss.name, cfg.penalty.name, cfg.d_steps) == ("joint", "hinge", "none", 2)
    assert (cfg.optimizer.g.lr, cfg.optimizer.d.lr) == (1e-4, 4e-4)
    check(cfg)


@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_experiment_takes_every_strategy_and_every_loss_of_its_kind(experiment):
    for strategy in options("strategy"):
        if strategy == "one_stage" and experiment in ("dcgan", "lsgan"):
            continue  # batch norm in D, and a ratio that is not uniform
        check(composed(f"experiment={experiment}", f"strategy={strategy}"))
    for loss in options("loss"):
        if fits(loss, "began" if experiment == "began" else "dcgan") and not (experiment == "began" and loss != "began"):
            check(composed(f"experiment={experiment}", f"loss={loss}"))


def test_a_key_of_a_preset_that_another_option_does_not_have_is_refused_with_the_way_out():
    with pytest.raises(ConfigError, match=r"add ~discriminator\.batch_norm\.$"):
        check(composed("experiment=dcgan", "discriminator=mlp"))
    check(composed("experiment=dcgan", "discriminator=mlp", "~discriminator.batch_norm"))


def test_choices_arrive_in_the_objects():
    trainer = build(composed(*SMALL, "loss=wgan_gp", "seed=7", "prior=uniform", "redundant_gradients=true", "optimizer=adam"))
    gan = trainer.gan
    assert type(gan.penalty).__name__ == "GradientPenalty"
    assert (gan.penalty.seed, gan.prior.seed, gan.redundant_gradients, gan.prior.distribution) == (7, 7, True, "uniform")
    assert gan.optimizer_g.defaults["fused"] is True
    z = gan.prior.sample(4000)
    assert (z.min().item(), z.max().item()) == pytest.approx((-1, 1), abs=0.01)
    other = build(composed(*SMALL, "seed=8"))
    assert not torch.equal(next(trainer.reals), next(other.reals))


def test_wgan_keeps_its_weights_clipped_in_a_run():
    trainer = build(composed(*SMALL, "loss=wgan", "iterations=3", "optimizer.lr=0.1"))
    trainer.fit()
    largest = max(p.abs().max().item() for p in trainer.gan.discriminator.parameters())
    assert largest == pytest.approx(0.01, rel=1e-6)


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    build(composed(*SMALL, "iterations=1"), tmp_path).fit()
    with pytest.raises(ConfigError, match="holds a run already"):
        build(composed(*SMALL, "iterations=1"), tmp_path)


def test_wandb_can_be_disabled_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    trainer = build(composed(*SMALL, "wandb.mode=auto", f"wandb.directory={tmp_path}", "iterations=1"), tmp_path / "run")
    assert [type(book).__name__ for book in trainer.books] == ["FolderBook", "ProgressBook"]
    trainer.fit()


def test_ema_can_be_off_in_yaml_which_calls_it_false():
    cfg = composed(*SMALL, "iterations=1")
    cfg.ema = False
    assert build(cfg).ema.average is not None


def test_lookahead_goes_around_any_strategy():
    trainer = build(composed(*SMALL, "strategy=g_first", "lookahead.every=2", "lookahead.alpha=0.25", "iterations=4"))
    trainer.fit()
    assert (trainer.strategy.every, trainer.strategy.alpha, trainer.strategy.iterations) == (2, 0.25, 4)
    for p, slow in zip(trainer.gan.generator.parameters(), trainer.strategy.slow, strict=False):
        assert torch.equal(p, slow)


@pytest.mark.parametrize("optimizer", options("optimizer"))
def test_each_optimizer_trains(optimizer):
    trainer = build(composed(*SMALL, f"optimizer={optimizer}", "iterations=3"))
    before = [p.detach().clone() for p in trainer.gan.discriminator.parameters()]
    trainer.fit()
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.gan.discriminator.parameters(), strict=True))


def test_two_learning_rates_are_one_override():
    gan = build(composed(*SMALL, "optimizer.d.lr=4e-4", "optimizer.lr=1e-4")).gan
    assert gan.optimizer_g.param_groups[0]["lr"] == 1e-4
    assert gan.optimizer_d.param_groups[0]["lr"] == 4e-4
    assert {id(p) for p in gan.optimizer_d.param_groups[0]["params"]} == {id(p) for p in gan.discriminator.parameters()}


REFUSED = [
    # overrides, and what the sentence must name: the key, and the remedy
    (["cuda_graph=true", "device=cpu"], "cuda_graph=true needs a GPU, and device=cpu is none: choose cuda_graph=auto."),
    (["cuda_graph=maybe"], "cuda_graph should be auto, true or false, not maybe."),
    (["channels_last=null"], "channels_last should be auto, true or false, not null."),
    (["threads=0"], "threads should be auto or an integer from 1, not 0."),
    (["workers=x"], "workers should be auto or an integer from 0, not x."),
    (
        ["precision=tf32", "device=cpu"],
        "precision=tf32 is a format of GPUs since Ampere, which cpu is not; choose",
    ),
    (["feed=lazy"], "feed should be 'auto', 'resident' or 'streamed', not lazy."),
    (
        ["flip=true", "dataset=ring", "generator=mlp", "discriminator=mlp"],
        "flip=true mirrors images, and dataset=ring has none",
    ),
    (["compile=true", "penalty=gradient_penalty"], "penalty=gradient_penalty differentiates gradients, which compiled"),
    (["compile=true", "strategy=unrolled", "lookahead.every=3"], "strategy=unrolled differentiates gradients, which compiled"),
    (["d_steps=0"], "d_steps should be greater than or equal to 1, not 0"),
    (["g_steps=1.5"], "g_steps should be a valid integer, not 1.5"),
    (["d_steps=true"], "d_steps should be a valid integer, not true"),
    (["batch_size=many"], "batch_size should be a valid integer, not many"),
    (["batch_size=null"], "batch_size should be a valid integer, not null"),
    (["iterations=-5"], "iterations should be greater than or equal to 1, not -5"),
    (["redundant_gradients=3"], "redundant_gradients should be a valid boolean, not 3"),
    (["precision=fp8"], "precision should be 'auto', 'fp32', 'tf32', 'bf16' or 'fp64', not fp8"),
    (["device=tpu"], "device should be auto, cpu, cuda or cuda:N, not tpu"),
    (["device=cuda:99"], "choose device=auto"),
    (["prior=cauchy"], "prior should be 'normal' or 'uniform', not cauchy"),
    (["ema=1.5"], "ema should be off or a decay between 0 and 1, such as 0.999, not 1.5"),
    (["ema=on"], "ema should be off or a decay"),
    (["seed=-1"], "seed should be greater than or equal to 0, not -1"),
    (["wandb.mode=loud"], "wandb.mode should be 'auto', 'online', 'offline' or 'disabled', not loud"),
    (["wandb.tags=baseline"], "wandb.tags should be a valid array, not baseline"),
    (["+d_step=2"], "d_step is no key of the configuration; did you mean d_steps?"),
    (["+wandb.projekt=x"], "wandb.projekt is no key of the configuration; did you mean project?"),
    (["+loss.gama=0.3"], "loss.gama is no key of the configuration"),
    (["+generator.widht=3"], "generator.widht is no key of the configuration; did you mean width?"),
    (["generator.width=wide"], "generator.width should be a valid integer, not wide"),
    (["generator.width=0"], "generator.width must be at least 1, not 0"),
    (["discriminator.batch_norm=maybe"], "discriminator.batch_norm should be a valid boolean, not maybe"),
    (["loss=began", "discriminator=began", "loss.gamma=3"], "loss.gamma must lie in (0, 1], not 3"),
    (["loss=wgan", "penalty.bound=0"], "penalty.bound must be positive and finite, not 0"),
    (["optimizer.lr=-1"], "lr must be positive and finite, not -1"),
    (["optimizer.lr=inf"], "lr must be positive and finite, not inf"),
    (["optimizer.lr=nan"], "lr must be positive and finite, not nan"),
    (["optimizer.betas=[0.5]"], "optimizer.g.betas"),
    (["optimizer.betas=[0.5,1.0]"], "betas must lie in [0, 1), not [0.5, 1.0]"),
    (["+optimizer.lrr=1"], "optimizer.lrr is no key of the configuration; did you mean lr?"),
    (["dataset=image_folder"], "dataset.path must be given"),
    (["+generator.shape=[3]"], "generator.shape is no key of the configuration"),
    (["dataset=image_folder", "dataset.path=/nowhere"], "dataset.path must be a folder of images"),
    (["dataset.image_size=28"], "generator: shape must be one of 16×16, 32×32, 64×64, …, not 28×28; set dataset.image_size"),
    (["dataset=ring"], "take the mlp networks"),
    (["dataset=ring", "generator=mlp"], "discriminator: shape must be that of an image"),
    (["loss=began"], "choose discriminator=dcgan or discriminator=mlp, or loss=began|choose discriminator=began"),
    (["discriminator=began"], "choose discriminator=dcgan or discriminator=mlp, or loss=began"),
    (["discriminator=began", "loss=softmaxgan", "penalty=gradient_penalty"], "choose penalty=none"),
    (["loss._target_=ganexp.losses.Nothing"], "loss._target_=ganexp.losses.Nothing cannot be imported"),
    (["lookahead.alpha=2"], "lookahead.alpha should be less than or equal to 1, not 2"),
    (["+lookahead.evry=2"], "lookahead.evry is no key of the configuration; did you mean every?"),
    (["strategy=one_stage", "discriminator.batch_norm=true"], "take strategy=joint, or a discriminator without it"),
    (["strategy=unrolled", "strategy.k=-1"], "strategy.k must be at least 0, not -1"),
    (["strategy=unrolled", "strategy.rate=0"], "strategy.rate must be positive and finite, not 0"),
    (["optimizer=sgd", "optimizer.momentum=-0.5"], "optimizer=negative_momentum takes it below 0"),
    (["device=cuda:01"], "device should be auto, cpu, cuda or cuda:N"),
    (["wandb.project=a/b"], "wandb.project should be 1 to 128 characters without"),
    (["wandb.tags=['']"], "wandb.tags"),
    (["data_root="], "data_root should have at least 1 character"),
    (["generator=mlp", "generator.depth=1000000000"], "generator.depth must be at most 1000"),
    (["dataset=ring", "dataset.modes=1000000000000"], "dataset.modes must lie in [1, 10000]"),
    (["dataset=grid", "dataset.side=1000000"], "dataset.side must lie in [1, 100]"),
    (["loss._target_=torch.nn.ReLU"], "must be a ganexp.losses.Loss"),
    (["loss._target_=builtins.int"], "loss._target_=builtins.int"),
    (["loss.name=../../evil"], "loss.name should be letters"),
    (["strategy._target_=math.pi"], "strategy._target_=math.pi must name a class or a function"),
]


@pytest.mark.parametrize(("overrides", "sentence"), REFUSED, ids=[" ".join(overrides) for overrides, _ in REFUSED])
def test_mistakes_are_refused_in_one_sentence_that_names_the_key_and_the_remedy(overrides, sentence):
    with pytest.raises(ConfigError) as refusal:
        check(composed(*overrides))
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


class TwoScores(nn.Module):
    def __init__(self, shape):
        super().__init__()

    def forward(self, x):
        return x.flatten(1)[:, :2]


def test_networks_of_ones_own_are_checked_too():
    cfg = composed()
    cfg.generator = {"_target_": f"{__name__}.Flat"}
    with pytest.raises(ConfigError, match=r"generator makes samples of shape \(7,\)"):
        check(cfg)
    cfg = composed()
    cfg.discriminator = {"_target_": f"{__name__}.TwoScores"}
    with pytest.raises(ConfigError, match="one score per sample"):
        check(cfg)


class LooksAtValues(nn.Module):
    output = "energy"

    def __init__(self, shape):
        super().__init__()
        self.rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]

    def forward(self, x):
        return x.abs().flatten(1).mean(1)


def test_a_network_that_cannot_be_tried_without_values_is_let_through(caplog):
    cfg = composed("loss=began")
    cfg.discriminator = {"_target_": f"{__name__}.LooksAtValues"}
    with caplog.at_level(logging.WARNING):
        check(cfg)
    assert "not checked beforehand" in caplog.text


def test_gradient_penalty_warns_about_batch_norm(caplog):
    with caplog.at_level(logging.WARNING):
        check(composed("loss=wgan_gp", "discriminator.batch_norm=true"))
    assert "without batch norm" in caplog.text


def test_a_missing_download_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(ConfigError, match=r"^dataset: MNIST is not in .* and could not be downloaded"):
        build(composed("dataset=mnist", f"data_root={tmp_path}", "wandb.mode=disabled"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_wandb_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    cfg = composed(*SMALL, "wandb.mode=offline", f"wandb.directory={tmp_path}/file/x")
    with pytest.raises(ConfigError, match=r"^wandb\.directory=.*cannot be written"):
        build(cfg, tmp_path / "run")


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    def weights(seed):
        trainer = build(composed(*SMALL, "iterations=3", f"seed={seed}"))
        trainer.fit()
        return torch.cat([p.detach().flatten() for p in trainer.gan.generator.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_precision_reaches_every_part():
    trainer = build(composed(*SMALL, "precision=fp64", "loss=began", "discriminator=began", "iterations=2", "ema=0.9"))
    trainer.fit()
    gan = trainer.gan
    tensors = [*gan.generator.parameters(), *gan.discriminator.parameters(), *gan.loss.buffers()]
    tensors += [*trainer.ema.average.parameters(), trainer.reals.last, gan.last_real, gan.sample()]
    assert {t.dtype for t in tensors} == {torch.float64}


def test_plain_dictionaries_do_as_well_as_hydras():
    from omegaconf import OmegaConf

    cfg = OmegaConf.to_container(composed(*SMALL, "iterations=1"), resolve=True)
    assert build(cfg).fit()["iteration"] == 1


def test_strategies_under_conf_are_those_of_the_package():
    assert set(options("strategy")) == set(STRATEGIES)
