"""From configuration to trainer: everything under conf/ builds, what fits trains, what does not is refused."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image

from ganexp import build, load, strategies
from ganexp.config.check import check
from ganexp.config.schema import GROUPS, LISTS, ConfigError
from ganexp.logging import TensorBoardLogger
from ganexp.streams import stream
from tests.composing import CONF, composed, declared, discriminator_for, each_with_a_usual_one, fits, options
from tests.data import torchvision_sets as sets
from tests.data.samples import noise
from tests.data.tars import written
from tests.tiny import iterate

SMALL = ["generator.width=2", "discriminator.width=2", "batch_size=4", "latent_dim=3", "logger=[]"]
POINTS = {name for name in options("dataset") if getattr(declared("dataset", name), "shape", None) == (2,)}


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Return overrides that point every dataset at a tiny set on disk."""
    rng = np.random.default_rng(0)
    for name in ("MNIST", "FashionMNIST", "KMNIST"):
        sets.write_idx(tmp_path / name / "raw", rng.integers(0, 256, (9, 28, 28), dtype=np.uint8))
    Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)).save(tmp_path / "image.png")

    class CIFAR:
        def __init__(self, **_):
            self.data = rng.integers(0, 256, (9, 32, 32, 3), dtype=np.uint8)

    monkeypatch.setattr("ganexp.data.CIFAR10.source", CIFAR)
    sets.write_emnist(tmp_path, "balanced", noise(9, 28, 28), [0] * 9)
    sets.write_cifar100(tmp_path, noise(9, 3, 32, 32), [0] * 9, monkeypatch)
    sets.write_svhn(tmp_path, noise(9, 3, 32, 32), [0] * 9, monkeypatch)
    sets.write_stl10(tmp_path, noise(2, 3, 96, 96), [0] * 2, noise(7, 3, 96, 96), monkeypatch)
    sets.write_celeba(tmp_path, noise(9, 218, 178, 3), [0] * 9, monkeypatch)

    written(tmp_path / "shards", n=9, side=32)
    for i, image in enumerate(noise(9, 32, 32, 3)):
        folder = tmp_path / "hub" / "train" / str(i % 2)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{i}.png")

    def overrides(dataset):
        further = {"image_folder": [f"dataset.path={tmp_path}", "dataset.image_size=32"], "fake": ["dataset.n=9"]}
        further["stacked_mnist"] = ["dataset.n=9"]
        further["shards"] = [f"dataset.path={tmp_path}/shards/train-*.tar", "dataset.image_size=32"]
        further["hub"] = [f"dataset.path={tmp_path}/hub", "dataset.image_size=32"]
        further["torch"] = ["dataset.dataset._target_=tests.data.own.Own"]
        return [f"dataset={dataset}", f"data_root={tmp_path}", *further.get(dataset, [])]

    return overrides


@pytest.mark.parametrize(
    ("dataset", "network"),
    [
        *((one, "mlp") for one in options("dataset")),
        ("digits", "dcgan"),
        *(pytest.param("digits", one, marks=pytest.mark.slow) for one in options("generator") if one not in ("mlp", "dcgan")),
    ],
)
def test_each_dataset_and_each_network_trains(dataset, network, data):
    loss = "nonsaturating" if fits("nonsaturating", network) else "began"
    networks = [f"generator={network}", f"discriminator={network}"]
    small = [one for one in SMALL if ".width" not in one or "width" in composed(*networks).generator]
    choices = [*data(dataset), *networks, f"loss={loss}", *small, "latent_dim=8", "iterations=3"]
    trainer = build(composed(*choices), trust=["tests"])
    before = [p.detach().clone() for p in trainer.gan.generator.parameters()]
    summary = trainer.fit()
    assert summary["iteration"] == 3
    assert any(not torch.equal(a, b) for a, b in zip(before, trainer.gan.generator.parameters(), strict=True))
    assert all(torch.isfinite(p).all() for p in trainer.gan.generator.parameters())


@pytest.mark.parametrize("discriminator", ["mlp", "began"])
@pytest.mark.parametrize("loss", options("loss"))
def test_each_loss_takes_the_discriminators_it_has_a_meaning_for(loss, discriminator):
    cfg = composed(f"loss={loss}", f"discriminator={discriminator}", *SMALL)
    if fits(loss, discriminator):
        check(cfg)
    else:
        with pytest.raises(ConfigError, match=r"^(loss=|penalty\.).*discriminator.*choose "):
            check(cfg)


@pytest.mark.parametrize(("strategy", "loss"), each_with_a_usual_one())
def test_each_loss_and_each_strategy_trains(loss, strategy):
    discriminator = discriminator_for(loss) or ["discriminator=mlp"]
    cfg = composed(f"loss={loss}", f"strategy={strategy}", *discriminator, *SMALL, "d_steps=2", "g_steps=3")
    cfg.iterations = 2
    trainer = build(cfg)
    trainer.fit()
    assert trainer.gan.meter.updates == {"d": 4, "g": 6}


@pytest.mark.parametrize("penalty", options("penalty"))
def test_each_penalty_trains_and_is_logged_if_it_is_a_term(penalty):
    weights, of_g = [], penalty == "path_length"
    generator = ["generator=stylegan2", "generator.depth=1"] if of_g else []
    for choice in (penalty, "[]"):
        cfg = composed(f"penalty={choice}", *generator, "discriminator=mlp", *SMALL, "optimizer.lr=0.02")
        trainer = build(cfg)
        with torch.no_grad():
            torch._foreach_mul_([*trainer.gan.discriminator.parameters()], 4)  # so that it is too steep for wgan_lp
        iterate(trainer, 3)
        weights.append([p.detach().clone() for p in trainer.gan.discriminator.parameters()])
        logged = trainer.gan.meter.so_far().get("loss/g_penalty" if of_g else "loss/penalty")
        assert choice in ("[]", "weight_clipping") if logged is None else logged > 0
    assert all(torch.isfinite(p).all() for p in weights[0])
    assert any(not torch.equal(a, b) for a, b in zip(*weights, strict=True))


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


def test_a_folder_that_holds_a_run_is_refused(tmp_path):
    build(composed(*SMALL, "iterations=1"), tmp_path).fit()
    with pytest.raises(ConfigError, match="holds a run already"):
        build(composed(*SMALL, "iterations=1"), tmp_path)


def test_wandb_can_be_disabled_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    trainer = build(
        composed(*SMALL, "logger=[wandb]", "logger.wandb.mode=auto", f"logger.wandb.directory={tmp_path}", "iterations=1"),
        tmp_path / "run",
    )
    assert [type(logger).__name__ for logger in trainer.loggers] == ["FolderLogger", "ProgressLogger", "WandbLogger"]
    trainer.fit()
    assert not list(tmp_path.glob("wandb*"))


def test_lookahead_goes_around_any_strategy():
    trainer = build(
        composed(
            *SMALL,
            "strategy=g_first",
            "wrapper=[lookahead]",
            "wrapper.lookahead.every=2",
            "wrapper.lookahead.alpha=0.25",
            "iterations=4",
        )
    )
    trainer.fit()
    strategy = trainer.step.strategy
    assert (strategy.every, strategy.alpha, strategy.iterations) == (2, 0.25, 4)
    for p, slow in zip(trainer.gan.generator.parameters(), strategy.slow, strict=False):
        assert torch.equal(p, slow)


def test_two_learning_rates_are_one_override():
    gan = build(composed(*SMALL, "optimizer.d.lr=4e-4", "optimizer.lr=1e-4")).gan
    assert gan.optimizer_g.param_groups[0]["lr"] == 1e-4
    assert gan.optimizer_d.param_groups[0]["lr"] == 4e-4
    assert {id(p) for p in gan.optimizer_d.param_groups[0]["params"]} == {id(p) for p in gan.discriminator.parameters()}


def test_a_missing_download_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(ConfigError, match=r"^dataset: MNIST is not in .* and cannot be downloaded"):
        build(composed("dataset=mnist", f"data_root={tmp_path}", "logger=[]"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_wandb_folder_that_cannot_be_written_is_one_sentence_and_closes_what_was_opened(tmp_path, monkeypatch):
    closed, close = [], TensorBoardLogger.close
    monkeypatch.setattr(TensorBoardLogger, "close", lambda self, end: (closed.append(end["state"]), close(self, end)))
    (tmp_path / "file").touch()
    words = ("logger=[tensorboard,wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}/file/x")
    with pytest.raises(ConfigError, match=r"^logger\.wandb cannot write: .*/file/x"):
        build(composed(*SMALL, *words), tmp_path / "run")
    assert closed == ["failed"]


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    def weights(seed):
        trainer = build(composed(*SMALL, "iterations=3", f"seed={seed}"))
        trainer.fit()
        return torch.cat([p.detach().flatten() for p in trainer.gan.generator.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


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


def test_plain_dictionaries_do_as_well_as_hydras():
    from omegaconf import OmegaConf

    cfg = OmegaConf.to_container(composed(*SMALL, "iterations=1"), resolve=True)
    assert build(cfg).fit()["iteration"] == 1


def test_every_strategy_of_the_package_has_a_name_under_conf():
    assert set(strategies.__all__) - {"Strategy"} <= {declared("strategy", name).__name__ for name in options("strategy")}


WIDE = ["dataset=fake", "dataset.image_size=[16,32]", "dataset.n=23", "batch_size=5", "latent_dim=3", "logger=[]", "device=cpu"]


@pytest.mark.parametrize("network", ["dcgan", "mlp"])
def test_images_need_not_be_square(network, tmp_path):
    narrow = [f"generator={network}", f"discriminator={network}", "generator.width=2", "discriminator.width=2"]
    asked = ["evaluate_every=2", "evaluation.features=raw", "evaluation.samples=20", "measure=[kid]"]
    trainer = build(composed(*WIDE, *narrow, *asked, "iterations=2", "augment=diffaugment", "flip=true"), tmp_path)
    trainer.fit()
    assert "eval/kid" in trainer.last_row
    assert load(tmp_path).sample(3).shape == (3, 3, 16, 32)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["generator=resnet"], "shape should be one of 32×32, 48×48, 64×64, 128×128, not 16×32"),
        (["augment=ada"], "it transforms square images"),
        (["dataset=digits"], r"dataset\.image_size should be a valid integer, not \[16, 32\]"),
        (["dataset.image_size=[16,32,3]"], "dataset.image_size"),
        (["dataset.image_size=[16,0]"], "dataset.image_size"),
    ],
)
def test_where_they_have_to_be_square_a_sentence_says_so(overrides, said):
    settings = [one for one in WIDE if not (overrides == ["dataset=digits"] and one == "dataset.n=23")]
    settings = [one for one in settings if one != "dataset=fake" or overrides != ["dataset=digits"]]
    with pytest.raises(ConfigError, match=said):
        check(composed(*settings, *overrides))
