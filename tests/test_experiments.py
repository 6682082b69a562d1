"""The papers' presets: they have their papers' settings, build, train, and take other choices."""

import logging
import math
import re

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image

from ganexp import build
from ganexp.config.check import check
from ganexp.data import Dataset
from ganexp.facts import UserError
from ganexp.schedules import Coefficient
from ganexp.training.cuda_graph import Recorded
from tests.composing import CONF, composed, options
from tests.data.samples import noise
from tests.training.tape import Tapes

PUBLISHED = [name for name in options("experiment") if name not in ("ring", "grid", "topk_ring")]
QUICK = ("began", "dcgan", "ring", "wgan")


class StandIn(Dataset):
    """A few noisy images in three classes, in place of a set that would be downloaded."""

    classes = 3

    def __init__(self, shape=(3, 32, 32)):
        self.shape = tuple(shape)

    def load(self):
        return torch.randint(0, 256, (12, *self.shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    def labels(self):
        return torch.arange(12) % self.classes


FILES = {"pix2pix": ["dataset.path"], "cyclegan": ["dataset.a", "dataset.b"], "srgan": ["dataset.of.path"]}
FILES["pix2pix_small"] = ["dataset.sources", "dataset.targets"]
"""Which keys of a preset name files, which every user has to say."""
LATENTS = {"gat": (4, 32, 32), "afm": (4, 32, 32), "gat_mini": (4, 8, 8), "afm_mini": (4, 8, 8)}
"""Presets for latents, and the shape of one."""
SHALLOW = ["generator.depth=2", "discriminator.depth=2"]
LARGE = {"r3gan": ["batch_size=32"], "gat": SHALLOW, "afm": SHALLOW}
"""What presets need that do not fit into memory here."""


@pytest.fixture
def files(tmp_path):
    """Return a function that writes a few images or latents for a preset, and returns what names them."""

    def write(experiment):
        if experiment in LATENTS:
            np.save(tmp_path / "z.npy", torch.randn(12, *LATENTS[experiment]).numpy())
            np.save(tmp_path / "y.npy", np.arange(12) % 3)
            return [f"dataset.path={tmp_path}/z.npy", f"dataset.labels={tmp_path}/y.npy"]
        for i, pixels in enumerate(noise(3, 64, 128, 3)):
            Image.fromarray(pixels).save(tmp_path / f"{i}.png")
        held_out = ["dataset.hold_out=1"] if experiment == "pix2pix_small" else []
        return [f"{key}={tmp_path}" for key in FILES.get(experiment, ())] + held_out

    return write


def small(experiment, files=()):
    """Compose a preset with networks as narrow as they get, on the smallest images that they are for."""
    cfg = composed(f"experiment={experiment}", "logger=[]", *files)
    for side in ("generator", "discriminator"):
        cfg[side].get("of", cfg[side]).width = 2
        if cfg[side].name == "dit":
            cfg[side].update({"width": 8, "heads": 2, "depth": 1})
    if files and experiment not in LATENTS:
        cfg.dataset.get("of", cfg.dataset).image_size = 64 if experiment == "pix2pix" else 32
        if experiment == "pix2pix":
            cfg.generator.depth = 6
    if cfg.schedule.get("begin"):
        cfg.schedule.begin = 0
    cfg.batch_size = min(8, cfg.batch_size)
    cfg.g_batch = cfg.g_batch and 2 * cfg.batch_size
    if "warm_up" in cfg.wrapper:
        cfg.wrapper.warm_up.many = 2
    if "pretrain" in cfg.wrapper:
        cfg.wrapper.pretrain.g = 1
    if "replay" in cfg.wrapper:
        cfg.wrapper.replay.size = 2
    if "topk" in cfg.wrapper:
        cfg.wrapper.topk.update({"every": 1, "gamma": 0.5})
    if experiment == "stylegan2_ada":
        cfg.moving.average.half_life.end = 3
    if experiment in PUBLISHED and cfg.dataset.name not in ("degraded", "self", "separated", "pairs", "unpaired", "latents"):
        side = 32 if cfg.generator.name in ("resnet", "biggan") else 16
        cfg.dataset = {"name": "stand_in", "_target_": "tests.test_experiments.StandIn", "shape": [3, side, side]}
        plain = composed()  # it has no modes to count
        cfg.evaluate_every, cfg.measure, cfg.evaluation = 0, plain.measure, plain.evaluation
    return cfg


@pytest.mark.parametrize(
    "experiment", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in options("experiment")]
)
def test_every_experiment_builds_and_trains_without_a_warning(experiment, files, caplog):
    further = files(experiment)
    assert check(composed(f"experiment={experiment}", *further, *LARGE.get(experiment, []))).warnings == []
    cfg = small(experiment, further)
    cfg.iterations = 3
    assert build(cfg, trust=None).fit()["iteration"] == 3
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("experiment", PUBLISHED)
def test_a_published_preset_names_its_source(experiment):
    lines = (CONF / "experiment" / f"{experiment}.yaml").read_text().splitlines()
    assert re.search(r"\b(19|20)\d\d\b", lines[1])
    assert any(line.startswith("# Departure") for line in lines) or experiment in ("dcgan", "wgan")


@pytest.mark.parametrize(
    ("experiment", "expected"),
    [
        ("dcgan", {"batch_size": 128, "latent_dim": 100, "optimizer.lr": 2e-4, "optimizer.betas": [0.5, 0.999]}),
        (
            "began",
            {"batch_size": 16, "prior": "uniform", "loss.lambda_k": 1e-3, "optimizer.lr": 1e-4, "schedule.name": "stalled"},
        ),
        ("softmaxgan", {"strategy.name": "joint", "d_steps": 1, "g_steps": 2}),
        (
            "consensus_ring",
            {"strategy.gamma": 10.0, "optimizer.lr": 1e-4, "optimizer.alpha": 0.9, "batch_size": 512, "generator.depth": 4},
        ),
        ("lsgan", {"loss.name": "lsgan", "optimizer.lr": 1e-3}),
        ("wgan", {"optimizer.name": "rmsprop", "optimizer.lr": 5e-5, "d_steps": 5, "penalty.weight_clipping.bound": 0.01}),
        (
            "wgan",
            {f"wrapper.warm_up.{key}": value for key, value in {"first": 25, "every": 500, "many": 100, "of": "d"}.items()},
        ),
        ("topk_ring", {"wrapper.topk.nu": 0.5, "dataset.name": "ring", "strategy.name": "detach"}),
        (
            "wgan_gp",
            {
                "optimizer.betas": [0.0, 0.9],
                "d_steps": 5,
                "penalty.gradient_penalty.weight": 10.0,
                "discriminator.batch_norm": False,
            },
        ),
        ("dragan", {"penalty.dragan.weight": 10.0, "penalty.dragan.noise": 0.5, "optimizer.lr": 2e-4}),
        ("sngan", {"loss.name": "hinge", "d_steps": 5, "optimizer.lr": 2e-4, "optimizer.betas": [0.0, 0.9], "latent_dim": 128}),
        ("sngan", {"batch_size": 64, "g_batch": 128}),
        (
            "sagan",
            {"optimizer.g.lr": 1e-4, "optimizer.d.lr": 4e-4, "generator.attention": True, "generator.spectral_norm": True},
        ),
        (
            "sngan_projection",
            {"conditional": True, "schedule.name": "linear", "generator.name": "resnet", "loss.name": "hinge", "d_steps": 5},
        ),
        ("ragan", {"loss.name": "ragan", "discriminator.spectral_norm": True, "batch_size": 32, "optimizer.lr": 2e-4}),
        ("ebgan", {"loss.name": "ebgan", "discriminator.name": "began", "optimizer.lr": 1e-3, "batch_size": 128}),
        ("r3gan", {"loss.name": "rpgan", "penalty.r1r2.weight": 0.05, "optimizer.betas": [0.0, 0.9], "latent_dim": 64}),
        ("r3gan", {"batch_size": 512, "optimizer.lr": 2e-4, "schedule.final": 0.25, "strategy.new_reals": True, "flip": True}),
        (
            "gat",
            {"batch_size": 512, "latent_dim": 64, "optimizer.betas": [0.0, 0.99], "clip_gradients": 1.0, "loss.name": "rpgan"},
        ),
        ("gat", {"penalty.approx_r1r2.weight": 0.1 / 2 / 0.01**2, "average.decay": 0.999, "dataset.scale": 0.18215}),
        (
            "gat",
            {"generator.width": 1152, "discriminator.depth": 28, "optimizer.lr": pytest.approx(2e-4 * 768 / 1152, rel=1e-3)},
        ),
        ("afm", {"batch_size": 256, "optimizer.name": "adamw", "optimizer.lr": 1e-4, "optimizer.betas": [0.0, 0.9]}),
        ("afm", {"penalty.approx_r1r2.weight": 0.25 / 0.01**2, "penalty.approx_r1r2.share": 0.25, "generator.z": "tokens"}),
        ("afm", {"penalty.centring.weight": 0.01, "average.decay": 0.9999, "moving.term.transport.weight": 2 * 0.005}),
        ("r3gan", {"augment.p": 0.0, "average.half_life": 0.0, "generator.width": 768, "generator.blocks": 2}),
        ("stylegan2_ada", {"optimizer.lr": 2.5e-3, "optimizer.betas": [0.0, 0.99], "penalty.r1.weight": 0.01}),
        ("stylegan2_ada", {"batch_size": 64, "generator.depth": 2, "discriminator.residual": False, "penalty.r1.every": 16}),
        ("biggan", {"latent_dim": 80, "generator.width": 96, "generator.embedding": 128, "d_steps": 5, "flip": True}),
        ("biggan", {"optimizer.lr": 2e-4, "optimizer.d.eps": 1e-6, "optimizer.g.eps": 1e-6, "loss.name": "hinge"}),
        ("unrolled_stacked", {"strategy.k": 10, "latent_dim": 256, "optimizer.g.lr": 1e-4, "optimizer.d.lr": 2e-4}),
        ("pacdcgan", {"pack": 2, "batch_size": 128, "prior": "uniform", "g_steps": 2, "dataset.n": 128_000}),
        ("lookahead_cifar10", {"wrapper.lookahead.every": 5, "wrapper.lookahead.alpha": 0.5, "loss.name": "hinge"}),
        ("extra_adam", {"optimizer.g.lr": 5e-5, "optimizer.d.lr": 5e-4, "strategy.name": "extragradient", "d_steps": 1}),
        ("pix2pix", {"generator.depth": 8, "generator.dropout": 0.5, "term.l1.weight": 100.0, "schedule.begin": 40_000}),
        ("pix2pix", {"batch_size": 1, "optimizer.lr": 2e-4, "optimizer.betas": [0.5, 0.999], "discriminator.layers": 3}),
        ("cyclegan", {"term.cycle.weight": 5.0, "term.identity.weight": 2.5, "loss.name": "lsgan", "wrapper.replay.size": 50}),
        ("cyclegan", {"generator.of.blocks": 9, "optimizer.lr": 2e-4, "strategy.name": "g_first", "wrapper.replay.share": 0.5}),
        ("srgan", {"generator.blocks": 16, "term.l2.weight": 1000.0, "optimizer.lr": 1e-4, "optimizer.betas": [0.9, 0.999]}),
        ("sngan_mimicry", {"generator.upsampling": "bilinear", "discriminator.activated_shortcut": True, "g_batch": None}),
    ],
)
def test_experiments_have_their_papers_settings(experiment, expected):
    cfg = composed(f"experiment={experiment}")
    assert {key: OmegaConf.select(cfg, key) for key in expected} == expected


def published(images, start, end, until=2e7):
    """Return a number of R3GAN's recipe for CIFAR-10 after so many images: half a cosine over 20 million of them."""
    return end if images > until else start + (end - start) * (1 - math.cos(math.pi * images / until)) / 2


@pytest.mark.slow
def test_the_numbers_of_r3gan_move_as_published():
    """Their code computes them from the images seen so far, in batches of 512; half-lives are images there."""
    plan = check(composed("experiment=r3gan", "batch_size=32"))
    schedule = plan.parts.schedule
    coefficients = {
        key: Coefficient(None, one.start, one.move.to, type(schedule)(plan.config.iterations, final=0.0))
        for key, one in plan.moving.items()
    }
    for t in (0, 1, 1000, 20_000, 39_000, 39_062):
        seen = 512 * t
        expected = {
            "penalty.r1r2.weight": published(seen, 0.05, 0.005),
            "optimizer.betas.1": published(seen, 0.9, 0.99),
            "augment.p": published(seen, 0, 0.55),
            "average.half_life": published(seen, 0, 5e6) / 512,
        }
        assert {key: one.value(t) for key, one in coefficients.items()} == pytest.approx(expected, rel=1e-4, abs=1e-6)
        assert 2e-4 * schedule.factor(t) == pytest.approx(published(seen, 2e-4, 5e-5), rel=1e-4)


@pytest.mark.slow
def test_an_iteration_of_r3gan_is_recorded_with_all_that_moves():
    """By a tape on a CPU; `tests/training/test_recorded_parts.py` says what a GPU records."""
    runs = []
    for recorded in (False, True):
        cfg = small("r3gan")
        cfg.iterations = 8
        made = build(cfg, trust=None)
        if recorded:
            made.step = Recorded(made.step, Tapes)
        made.fit()
        runs.append([*made.gan.generator.state_dict().values(), *made.step.average.generator.state_dict().values()])
    assert len(made.step.recordings) == 1
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_an_experiment_can_be_overridden_from_the_command_line():
    cfg = composed("experiment=wgan_gp", "strategy=joint", "loss=hinge", "penalty=[]", "d_steps=2", "optimizer.d.lr=4e-4")
    assert (cfg.strategy.name, cfg.loss.name, cfg.penalty, cfg.d_steps) == ("joint", "hinge", {}, 2)
    assert (cfg.optimizer.g.lr, cfg.optimizer.d.lr) == (1e-4, 4e-4)
    check(cfg)


def test_a_key_of_a_preset_that_another_option_does_not_have_is_refused_with_the_way_out():
    with pytest.raises(UserError, match=r"add ~discriminator\.batch_norm\.$"):
        check(composed("experiment=dcgan", "discriminator=mlp"))
    check(composed("experiment=dcgan", "discriminator=mlp", "~discriminator.batch_norm"))


def test_betas_may_be_typed_as_whole_numbers():
    check(composed("optimizer.betas=[0,0.99]"))
