"""The papers' presets: they have their papers' settings, build, train, and take other choices."""

import pytest
from omegaconf import OmegaConf

from ganexp import build
from ganexp.configuration.check import check
from ganexp.configuration.schema import ConfigError
from tests.composing import composed, losses_of_scores, options
from tests.configuration.test_build import fits


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
    for loss in losses_of_scores():
        if fits(loss, "began" if experiment == "began" else "dcgan") and not (experiment == "began" and loss != "began"):
            check(composed(f"experiment={experiment}", f"loss={loss}"))


def test_a_key_of_a_preset_that_another_option_does_not_have_is_refused_with_the_way_out():
    with pytest.raises(ConfigError, match=r"add ~discriminator\.batch_norm\.$"):
        check(composed("experiment=dcgan", "discriminator=mlp"))
    check(composed("experiment=dcgan", "discriminator=mlp", "~discriminator.batch_norm"))
