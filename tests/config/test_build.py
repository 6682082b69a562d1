"""From configuration to trainer: everything under conf/ builds, what fits trains, what does not is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image

from ganexp import build, load, strategies
from ganexp.config import build as build_module
from ganexp.config import check as check_module
from ganexp.config import run_data, starting
from ganexp.config.check import check
from ganexp.config.schema import GROUPS, LISTS
from ganexp.facts import UserError
from ganexp.logging import TensorBoardLogger
from ganexp.strategies.base import as_strategy
from ganexp.streams import stream
from tests.composing import CONF, chosen, composed, discriminator_for, losses_of_scores, options
from tests.data import torchvision_sets as sets
from tests.data.samples import noise
from tests.thinned import thinned
from tests.tiny import iterate

SMALL = ["generator.width=2", "discriminator.width=2", "batch_size=4", "latent_dim=3", "logger=[]"]


OF_METRICS = ("high_is_best", "refuse_unknown_metric")
UNASKED = {
    check_module: ("at_the_end", "check_perceptual", "movables", "try_values", "with_decoder", *OF_METRICS),
    build_module: ("check_loggers", "endings", "with_coefficients"),
    run_data: ("distances_of", "preview_of", "with_decoder"),
    starting: ("begin",),
}


def test_what_is_not_asked_for_is_not_entered(tmp_path, monkeypatch):
    for module, names in UNASKED.items():
        for name in names:
            monkeypatch.setattr(module, name, None)
    build(composed("dataset=ring", "generator=mlp", "discriminator=mlp", *SMALL, "iterations=1"), tmp_path).fit()


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return what writes a tiny set of a kind to the disk, and returns the overrides that point at it."""

    def write_idx(name):
        sets.write_idx(tmp_path / name / "raw", noise(9, 28, 28))

    def write_folder(place):
        for i, image in enumerate(noise(9, 32, 32, 3)):
            (tmp_path / place / str(i % 2)).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(tmp_path / place / str(i % 2) / f"{i}.png")

    class CIFAR:
        def __init__(self, **_):
            self.data = noise(9, 32, 32, 3)

    write = {
        "mnist": lambda: write_idx("MNIST"),
        "stacked_mnist": lambda: write_idx("MNIST"),
        "fashion_mnist": lambda: write_idx("FashionMNIST"),
        "kmnist": lambda: write_idx("KMNIST"),
        "cifar10": lambda: monkeypatch.setattr("ganexp.data.CIFAR10.source", CIFAR),
        "emnist": lambda: sets.write_emnist(tmp_path, "balanced", noise(9, 28, 28), [0] * 9),
        "cifar100": lambda: sets.write_cifar100(tmp_path, noise(9, 3, 32, 32), [0] * 9, monkeypatch),
        "svhn": lambda: sets.write_svhn(tmp_path, noise(9, 3, 32, 32), [0] * 9, monkeypatch),
        "stl10": lambda: sets.write_stl10(tmp_path, noise(2, 3, 96, 96), [0] * 2, noise(7, 3, 96, 96), monkeypatch),
        "celeba": lambda: sets.write_celeba(tmp_path, noise(9, 218, 178, 3), [0] * 9, monkeypatch),
        "image_folder": lambda: write_folder("images"),
        "hub": lambda: write_folder("hub/train"),
        "pairs": lambda: [write_folder(one) for one in ("a", "b")],
        "unpaired": lambda: [write_folder(one) for one in ("a", "b")],
        "latents": lambda: np.save(tmp_path / "z.npy", 3 * torch.randn(9, 5, 4, 6).numpy()),
    }
    further = {
        "image_folder": [f"dataset.path={tmp_path}/images", "dataset.image_size=32"],
        "fake": ["dataset.n=9"],
        "stacked_mnist": ["dataset.n=9"],
        "hub": [f"dataset.path={tmp_path}/hub", "dataset.image_size=32"],
        "pairs": [f"dataset.sources={tmp_path}/a", f"dataset.targets={tmp_path}/b", "dataset.image_size=32"],
        "unpaired": [f"dataset.a={tmp_path}/a", f"dataset.b={tmp_path}/b", "dataset.image_size=32"],
        "latents": [f"dataset.path={tmp_path}/z.npy"],
        "torch": ["dataset.dataset._target_=tests.data.own.Own"],
    }

    def overrides(dataset):
        write.get(dataset, lambda: None)()
        return [f"dataset={dataset}", f"data_root={tmp_path}", *further.get(dataset, [])]

    return overrides


def test_what_was_checked_on_one_machine_is_checked_again_on_another(monkeypatch):
    config = composed(*SMALL, "device=cpu")
    machine = check(config).machine
    monkeypatch.setattr("ganexp.config.check.Machine.resolved", lambda device, precision: replace(machine, precision="fp64"))
    assert check(config).machine.precision == "fp64"


WITH_SOURCES = ("degraded", "self", "pairs", "unpaired", "separated")


@pytest.mark.parametrize(
    ("dataset", "network"), thinned([*((one, "mlp") for one in options("dataset")), ("digits", "dcgan")], 2)
)
def test_each_dataset_and_each_network_trains(dataset, network, data):
    networks = [f"generator={'unet' if dataset in WITH_SOURCES else network}", f"discriminator={network}"]
    choices = [*data(dataset), *networks, *SMALL, "latent_dim=8", "iterations=3"]
    trainer = build(composed(*choices), trust=["tests"])
    before = [p.detach().clone() for p in trainer.gan.generator.parameters()]
    summary = trainer.fit()
    assert summary["iteration"] == 3
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.gan.generator.parameters(), strict=True))
    assert all(torch.isfinite(p).all() for p in trainer.gan.generator.parameters())


def test_a_loss_may_take_either_kind_of_scores():
    for discriminator in ("mlp", "began"):
        check(composed("loss=softmaxgan", f"discriminator={discriminator}", "dataset.image_size=16", *SMALL))


@pytest.mark.parametrize("loss", losses_of_scores())
def test_each_loss_trains(loss):
    discriminator = discriminator_for(loss) or ["discriminator=mlp"]
    cfg = composed(f"loss={loss}", *discriminator, *SMALL, "dataset.image_size=16", "d_steps=2", "g_steps=3")
    cfg.iterations = 2
    trainer = build(cfg)
    trainer.fit()
    assert trainer.gan.meter.updates == {"d": 4, "g": 6}


@pytest.mark.parametrize("penalty", thinned(options("penalty"), 2))
def test_each_penalty_trains_and_is_logged_if_it_is_a_term(penalty):
    of_g = penalty == "path_length"
    generator = ["generator=stylegan2", "generator.depth=1", "dataset.image_size=16"] if of_g else []
    trainer = build(composed(f"penalty={penalty}", *generator, "discriminator=mlp", *SMALL, "optimizer.lr=0.02"))
    weights = [*trainer.gan.discriminator.parameters()]
    with torch.no_grad():
        torch._foreach_mul_(weights, 4)  # so that it is too steep for wgan_lp
    iterate(trainer, 3)
    assert all(p.isfinite().all() for p in weights)
    if penalty == "weight_clipping":
        assert max(p.abs().max().item() for p in weights) == pytest.approx(0.01)
    else:
        assert trainer.gan.meter.so_far()["loss/g_penalty" if of_g else "loss/penalty"] > 0


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_is_named_as_its_file_and_explains_itself(group):
    for path in (CONF / group).glob("*.yaml"):
        node = OmegaConf.load(path)
        assert [*node] == [path.stem] if group in LISTS else node.name == path.stem
        assert path.read_text().startswith("# ")


def test_choices_arrive_in_the_objects():
    trainer = build(composed(*SMALL, "loss=wgan_gp", "seed=7", "prior=uniform", "redundant_gradients=true", "optimizer=adam"))
    gan = trainer.gan
    assert type(gan.penalty).__name__ == "GradientPenalty"
    assert (gan.prior.seed, gan.redundant_gradients, gan.prior.distribution) == (7, True, "uniform")
    assert torch.equal(gan.penalty.rng.get_state(), stream(7, "gradient penalty").get_state())
    assert gan.optimizer_g.defaults["fused"] is True
    z = gan.prior.sample(4000).values
    assert (z.min().item(), z.max().item()) == pytest.approx((-1, 1), abs=0.01)
    other = build(composed(*SMALL, "seed=8"))
    assert not torch.equal(next(trainer.reals).values, next(other.reals).values)
    assert not torch.equal(next(gan.generator.parameters()), next(other.gan.generator.parameters()))
    assert {id(p) for p in gan.optimizer_d.param_groups[0]["params"]} == {id(p) for p in gan.discriminator.parameters()}
    rates = build(composed(*SMALL, "optimizer.d.lr=4e-4", "optimizer.lr=1e-4")).gan
    assert [one.param_groups[0]["lr"] for one in (rates.optimizer_g, rates.optimizer_d)] == [1e-4, 4e-4]


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    build(composed(*SMALL, "iterations=1"), tmp_path).fit()
    with pytest.raises(UserError, match="holds a run already"):
        build(composed(*SMALL, "iterations=1"), tmp_path)


@pytest.mark.parametrize("name", ["config.json", "samples/real.png", "checkpoints/best.pt"])
def test_a_folder_with_files_that_a_run_would_replace_is_refused(name, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(UserError, match=f"{name} exists, and a run would write there"):
        build(composed(*SMALL, "iterations=1"), tmp_path)
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["mine"]


def test_wandb_can_be_disabled_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    trainer = build(
        composed(*SMALL, "logger=[wandb]", "logger.wandb.mode=auto", f"logger.wandb.directory={tmp_path}", "iterations=1"),
        tmp_path / "run",
    )
    assert [type(logger).__name__ for logger in trainer.loggers] == ["FolderLogger", "ProgressLogger", "WandbLogger"]
    trainer.fit()
    assert not list(tmp_path.glob("wandb*"))


def test_a_missing_download_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(UserError, match=r"^dataset: MNIST is not in .* and cannot be downloaded"):
        build(composed("dataset=mnist", f"data_root={tmp_path}", "logger=[]"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_wandb_folder_that_cannot_be_written_is_one_sentence_and_closes_what_was_opened(tmp_path, monkeypatch):
    closed, close = [], TensorBoardLogger.close
    monkeypatch.setattr(TensorBoardLogger, "close", lambda self, end: (closed.append(end["state"]), close(self, end)))
    (tmp_path / "file").touch()
    words = ("logger=[tensorboard,wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}/file/x")
    with pytest.raises(UserError, match=r"^logger\.wandb cannot write: .*/file/x"):
        build(composed(*SMALL, *words), tmp_path / "run")
    assert closed == ["failed"]


def test_precision_reaches_every_part():
    trainer = build(
        composed(*SMALL, "precision=fp64", "loss=began", "discriminator=began", "iterations=2", "average.decay=0.9")
    )
    trainer.fit()
    gan = trainer.gan
    tensors = [*gan.generator.parameters(), *gan.discriminator.parameters(), *gan.loss.buffers()]
    tensors += [
        *trainer.step.average.generator.parameters(),
        trainer.reals.last.values,
        gan.meter.last_real,
        gan.sample().values,
    ]
    assert {t.dtype for t in tensors} == {torch.float64}


def test_every_strategy_of_the_package_has_a_name_under_conf():
    """And the defaults there are those of the class."""
    known = strategies.by_name()
    assert sorted(known) == options("strategy")
    for name, one in known.items():
        by_file = as_strategy(chosen("strategy", name))
        assert str(by_file) == str(one)
        assert all(getattr(one, key) == value for key, value in vars(by_file).items() if isinstance(value, float | str))


WIDE = ["dataset=fake", "dataset.image_size=[16,32]", "dataset.n=23", "batch_size=5", "latent_dim=3", "logger=[]", "device=cpu"]


def test_images_need_not_be_square(tmp_path):
    narrow = ["generator.width=2", "discriminator.width=2"]
    asked = ["evaluate_every=2", "evaluation.features=raw", "evaluation.samples=20", "measure=[kid]"]
    trainer = build(composed(*WIDE, *narrow, *asked, "iterations=2", "augment=diffaugment", "flip=true"), tmp_path)
    trainer.fit()
    assert "eval/kid" in trainer.last_row
    assert load(tmp_path).sample(3).shape == (3, 3, 16, 32)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [(["augment=ada"], "it transforms square images"), (["dataset.image_size=[16,0]"], "dataset.image_size")],
)
def test_where_they_have_to_be_square_a_sentence_says_so(overrides, said):
    with pytest.raises(UserError, match=said):
        check(composed(*WIDE, *overrides))
