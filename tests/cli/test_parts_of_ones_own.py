"""Parts of every kind from outside: one class and one YAML each, and nothing else."""

import json
import re
import sys

import pytest
import wandb

import ganexp
from ganexp.cli.commands.dashboard import run as dashboard
from ganexp.cli.composing import compose
from ganexp.config.build import trainer_of
from ganexp.config.check import check
from ganexp.config.resume import Checkpoint
from ganexp.facts import UserError
from ganexp.training.checkpoint import load
from tests.calling import call
from tests.forked import train
from tests.logging.records import records
from tests.small_runs import assert_same, untimed

PACKAGE = """
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt, Le

from ganexp import Misfit
from ganexp.augmentations import Augmentation
from ganexp.data import Dataset
from ganexp.evaluation import Measure, low
from ganexp.evaluation.statistics import Moments
from ganexp.instruments.scalar import Scalar
from ganexp.logging import Logger
from ganexp.losses import Loss
from ganexp.networks import MLPDiscriminator, MLPGenerator
from ganexp.penalties import Penalty
from ganexp.ranges import checked
from ganexp.strategies import Strategy
from ganexp.wrappers.base import Remembering, seen


class Shifted(Loss):
    measures: ClassVar = {
        "shifted/gap": Scalar("how far real scores lie above generated ones", "last,min", label="gap"),
        "shifted/spread": Scalar("how far real scores lie apart"),
    }

    @checked
    def __init__(self, *, shift: Annotated[float, Gt(0), Le(2)] = 1.0) -> None:
        super().__init__()
        self.shift = shift
        self.register_buffer("center", torch.zeros(()))

    def check(self, run):
        super().check(run)
        if run.batch_size < 4 * self.shift:
            raise Misfit("shifts too far for small batches", shift=run.batch_size / 4, batch_size=round(4 * self.shift))

    def d_loss(self, real, fake):
        return (real - self.shift).square().mean() + fake.square().mean()

    def g_loss(self, real, fake):
        return (fake - self.shift - self.center).square().mean()

    def observe(self, real, fake):
        self.center.lerp_(real.mean(), 0.5)

    def measurements(self, real, fake):
        return {"shifted/gap": real.mean() - fake.mean(), "shifted/spread": real.std(unbiased=False)}


class Silent(Shifted):
    measures: ClassVar = {}


class OftenTwice(Strategy):
    def __init__(self):
        self.iterations = 0

    def check(self, run):
        if run.d_steps > 1:
            raise Misfit("moves D once", d_steps=1)

    def __call__(self, gan, reals, *, d_steps, g_steps):
        x, fake = next(reals), gan.generate(gan.sample())
        gan.update_d(gan.d_loss(x, fake.detach()))
        for _ in range(2 - self.iterations % 2):
            gan.update_g(gan.g_loss(x, gan.generate(gan.sample())))
        self.iterations += 1

    def state_dict(self):
        return {"iterations": self.iterations}

    def load_state_dict(self, state):
        self.iterations = state["iterations"]


class Louder(Remembering):
    @checked
    def __init__(self, strategy, *, by: float = 1.5, every: Annotated[int, Ge(1)] = 2):
        super().__init__(strategy)
        self.by, self.every, self.iterations = by, every, 0

    def check(self, run):
        if self.every > run.iterations:
            raise Misfit("comes after the end of the run", every=run.iterations)

    def __call__(self, gan, reals, *, d_steps, g_steps):
        self.iterations += 1
        view = gan if self.iterations % self.every else seen(gan, sample=lambda: self.louder(gan.sample()))
        super().__call__(view, reals, d_steps=d_steps, g_steps=g_steps)

    def louder(self, z):
        z.values.mul_(self.by)
        return z

    def remembered(self):
        return {"iterations": self.iterations}

    def remember(self, state):
        self.iterations = state["iterations"]


class SmallScores(Penalty):
    keeps_count = True

    @checked
    def __init__(self, *, weight: Annotated[float, Gt(0)] = 0.1) -> None:
        self.weight, self.updates = weight, 0

    def check(self, run):
        if self.weight > run.batch_size:
            raise Misfit("outweighs the batch", weight=run.batch_size)

    def __call__(self, discriminator, x, fake):
        return discriminator(x.values, *x.conditions).square() / (1 + self.updates)

    def advance(self, real_scores, fake_scores):
        self.updates += 1

    def state_dict(self):
        return {"updates": self.updates}

    def load_state_dict(self, state):
        self.updates = state["updates"]


class Bars(Dataset):
    shape = (1, 8, 8)

    def __init__(self, *, n: int = 24) -> None:
        self.n = n

    def check(self, run):
        super().check(run)
        if self.n < run.batch_size:
            raise Misfit("has less than a batch", n=run.batch_size)

    def load(self):
        return torch.eye(8).mul(255).to(torch.uint8)[torch.arange(self.n) % 8, None, :, None].expand(-1, *self.shape)


class Narrow(MLPGenerator):
    def __init__(self, latent_dim, shape, *, width: Annotated[int, Gt(2)] = 4) -> None:
        if width > 64:
            raise Misfit("should be narrow", width=64)
        super().__init__(latent_dim, shape, width=width, depth=1)


class Shallow(MLPDiscriminator):
    @checked
    def __init__(self, shape, *, width: Annotated[int, Gt(2)] = 8) -> None:
        super().__init__(shape, width=width, depth=1)


class Dim(Augmentation):
    def check(self, run):
        super().check(run)
        if run.flip:
            raise Misfit("wants images as they are", flip=False)

    def transform(self, images):
        return images * self.uniform(images)


class Lines(Logger):
    def __init__(self, *, to: str = "lines.txt", most: Annotated[int, Gt(0)] = 100):
        self.to, self.most = to, most

    def check(self, run):
        if run.iterations > self.most:
            raise Misfit("has no room for the run", most=run.iterations)

    def open(self, run):
        self.file = (run.folder / self.to).open("a")
        self.said = (run.name, run.label, run.config["loss"]["name"], "shifted/gap" in run.measures, len(run.before.rows))

    def write(self, row):
        self.file.write(f"{row['progress/iteration']}\\n")

    def close(self, summary):
        self.file.write(" ".join(map(str, self.said)))
        self.file.close()
        summary["paths"]["lines"] = self.to


class FirstMoment(Measure[Moments]):
    keys: ClassVar = {"eval/first_moment": low("distance of the mean features")}
    keeps = Moments
    default_of = "images"

    @checked
    def __init__(self, *, times: Annotated[float, Gt(0)] = 1.0) -> None:
        self.times = times

    def check(self, run):
        if run.pack > self.times:
            raise Misfit("looks at single samples", times=run.pack, pack=1)

    def __call__(self, real, fake):
        return {"eval/first_moment": self.times * float((real.mean - fake.mean).norm())}
"""
YAML = {
    "loss": "# Nobody 2026: least squares around a shift.\nname: shifted\n_target_: {}.Shifted\nshift: 1.0\n",
    "strategy": "# As detach, but G often moves twice.\nname: shifted\n_target_: {}.OftenTwice\n",
    "wrapper": "# Latents are larger every now and then.\nshifted:\n  _target_: {}.Louder\n  by: 1.5\n  every: 2\n",
    "penalty": "# Keep the scores of real samples small.\nshifted:\n  _target_: {}.SmallScores\n  weight: 0.1\n",
    "dataset": "# One bar in each image.\nname: shifted\n_target_: {}.Bars\nn: 24\n",
    "generator": "# Few units.\nname: shifted\n_target_: {}.Narrow\nwidth: 4\n",
    "discriminator": "# One hidden layer.\nname: shifted\n_target_: {}.Shallow\nwidth: 8\n",
    "augment": "# Less light.\nname: shifted\n_target_: {}.Dim\n",
    "logger": "# Iterations in a text.\nshifted:\n  _target_: {}.Lines\n  to: lines.txt\n  most: 100\n",
    "measure": "# How far means lie apart.\nshifted:\n  _target_: {}.FirstMoment\n  times: 1.0\n",
}
MODULE = "package_of_a_test"
CHOICES = [f"{group}=shifted" for group in YAML if group != "logger"]
SMALL = ["batch_size=4", "iterations=2", "log_every=1", "sample_every=0", "evaluate_every=1", "evaluation.features=raw"]
SMALL += ["evaluation.samples=16"]


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """Write the package and its YAML files, and return the folder of these."""
    place = tmp_path_factory.mktemp("outside")
    (place / f"{MODULE}.py").write_text(PACKAGE)
    for group, text in YAML.items():
        (place / "conf" / group).mkdir(parents=True)
        (place / "conf" / group / "shifted.yaml").write_text(text.format(MODULE))
    sys.path.insert(0, str(place))
    yield place / "conf"
    sys.path.remove(str(place))
    sys.modules.pop(MODULE, None)


def typed(mine, *further, cwd):
    return train("--config-dir", str(mine), *CHOICES, *SMALL, "logger=[shifted]", *further, cwd=cwd)


@pytest.fixture(scope="module")
def run(mine, tmp_path_factory):
    """Train with all of them, and return what was said and the run folder."""
    cwd = tmp_path_factory.mktemp("run")
    done = typed(mine, "iterations=5", "keep_best=shifted/gap", "hydra.run.dir=here", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr, cwd / "here"


def test_the_help_describes_them(mine, tmp_path):
    said = typed(mine, "--help", cwd=tmp_path).stdout
    for line in (
        "Nobody 2026: least squares around a shift (shift=1.0)",
        "As detach, but G often moves twice",
        "Latents are larger every now and then (shifted.by=1.5, shifted.every=2)",
        "One bar in each image (n=24)",
        "Few units (width=4)",
        "Less light",
        "One hidden layer (width=8)",
        "Keep the scores of real samples small (shifted.weight=0.1)",
        "Iterations in a text (shifted.to=lines.txt, shifted.most=100)",
        "How far means lie apart (shifted.times=1.0)",
    ):
        assert f"  shifted           {line}\n" in said


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ("loss.shift=3", "loss.shift must be at most 2; got 3."),
        ("logger.shifted.most=0", "logger.shifted.most must be greater than 0; got 0."),
        ("loss.shift=2", "loss=shifted shifts too far for small batches: choose loss.shift=1.0 or batch_size=8."),
        ("d_steps=2", "strategy=shifted moves D once: choose d_steps=1."),
        ("wrapper.shifted.every=3", "wrapper.shifted comes after the end of the run: choose wrapper.shifted.every=2."),
        ("penalty.shifted.weight=5", "penalty.shifted outweighs the batch: choose penalty.shifted.weight=4."),
        ("dataset.n=3", "dataset=shifted has less than a batch: choose dataset.n=4."),
        ("generator.width=65", "generator=shifted should be narrow: choose generator.width=64."),
        ("flip=true", "augment=shifted wants images as they are: choose flip=false."),
        ("logger.shifted.most=1", "logger.shifted has no room for the run: choose logger.shifted.most=2."),
        ("pack=2", "measure.shifted looks at single samples: choose measure.shifted.times=2 or pack=1."),
        (
            "keep_best=shifted/gab",
            "keep_best=shifted/gab is not logged with loss=shifted and augment=shifted; did you mean shifted/gap?",
        ),
        (f"loss._target_={MODULE}.Silent", "measures shifted/gap, shifted/spread without saying what that is"),
    ],
)
def test_mistakes_are_sentences(mine, tmp_path, mistake, sentence):
    with pytest.raises(UserError) as refusal:
        ganexp.build(compose(*CHOICES, *SMALL, "logger=[shifted]", mistake, config_dir=mine), tmp_path / "run", trust=MODULE)
    assert sentence in str(refusal.value)
    assert not (tmp_path / "run").exists()


def test_it_trains_and_the_best_checkpoint_is_by_its_own_measure(run):
    _, folder = run
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["progress/g_updates"] for row in rows] == [2, 3, 5, 6, 8]
    assert all({"shifted/gap", "shifted/spread", "loss/penalty", "eval/first_moment"} <= set(row) for row in rows)
    assert (folder / "checkpoints" / "best.pt").exists()


def test_it_resumes_to_the_last_bit_with_the_state_of_every_part(mine, run):
    _, folder = run
    for words in (["iterations=3", "hydra.run.dir=parts"], ["iterations=5", "resume=parts", f"trust={MODULE}"]):
        done = typed(mine, "keep_best=shifted/gap", *words, cwd=folder.parent)
        assert done.returncode == 0, done.stderr
    assert untimed(folder.parent / "parts") == untimed(folder)
    resumed, whole = (load(folder.with_name(name) / "checkpoints" / "last.pt")["run"] for name in ("parts", "here"))
    for state in (resumed, whole):
        del state["trained_s"]
    assert_same(resumed, whole)


def test_a_logger_is_opened_with_what_the_run_is_described_by_and_gets_its_rows(mine, tmp_path):
    words = (*CHOICES, *SMALL, "logger=[shifted]", "checkpoint_every=1")
    trainer = ganexp.build(compose(*words, config_dir=mine), tmp_path / "run", trust=MODULE)
    assert trainer.fit()["paths"]["lines"] == "lines.txt"
    said = "shifted-shifted-shifted-seed0  shifted True"
    assert (tmp_path / "run" / "lines.txt").read_text() == f"1\n2\n{said} 0"
    longer = compose(*words, "iterations=3", "logger.shifted.to=again.txt", config_dir=mine)
    checkpoint = Checkpoint.read(tmp_path / "run" / "checkpoints" / "last.pt")
    plan = check(longer, trust=MODULE, checkpoint=checkpoint)
    trainer_of(plan, tmp_path / "run", label="seed=1", group="a sweep").fit()
    assert (tmp_path / "run" / "again.txt").read_text() == f"3\n{said.replace('  ', ' seed=1 ')} 2"


def test_the_progress_shows_what_has_a_label(run):
    said, folder = run
    gap = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["shifted/gap"]
    assert re.search(rf"5/5 .* gap {gap:.3f} ", said)
    assert "spread" not in said


def test_a_run_is_evaluated_anew_by_its_own_measure(mine, run, tmp_path):
    """The run knows its measure; a typed name is one of --config-dir."""
    _, folder = run
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["eval/first_moment"]
    twice = ("--measure", "shifted", "shifted.times=2", "--config-dir", str(mine))
    for words, factor in (((), 1), (twice, 2)):
        page = call("evaluate", str(folder), "--trust", MODULE, *words, "--output", str(tmp_path / str(factor)))
        (found,) = json.loads(page.with_suffix(".json").read_text())["results"]
        assert found["figures"]["eval/first_moment"]["value"] == factor * last


def test_the_report_explains_its_measures(run):
    page = call("report", str(run[1])).read_text()
    assert "how far real scores lie above generated ones" in page
    assert {"shifted/gap", "shifted/spread"} <= set(re.findall("<th>(.*?)</th>", page))


def test_the_dashboard_has_a_section_and_a_colour_for_it(mine):
    made = dashboard.workspace("someone", "ganexp", sweeps=["a"], folders=[mine])
    sections = {section.name: section.panels for section in made.sections}
    assert len(sections["loss=shifted"]) == 2 * len(dashboard.AXES)
    text = json.dumps(dashboard.spec(made))
    assert "summary:shifted/gap.min" in text
    assert "summary:shifted/spread" not in text
    colors = dashboard.colors(["detach", "shifted"], ["hinge", "shifted"])
    assert len(set(colors.values())) == 4


def test_wandb_sums_it_up(mine, tmp_path, monkeypatch):
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    cfg = compose(
        *CHOICES, *SMALL, "logger=[wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}", config_dir=mine
    )
    ganexp.build(cfg, tmp_path / "run", trust=MODULE).fit()
    wandb.teardown()
    named = {metric["name"]: metric["summary"] for metric in records(tmp_path)[0]["metric"] if metric.get("summary")}
    assert named["shifted/gap"]["min"]
    assert "shifted/spread" not in named
