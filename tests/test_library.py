"""docs/library.md: its examples, run as they stand, and what they are said to do."""

import json
import re
import shutil
import sys

import pytest
import torch

import ganexp
from ganexp import Step, Trainer
from ganexp.evaluation import Evaluator, Raw
from tests import processes
from tests.composing import CONF, composed

PAGE = (CONF.parent / "docs" / "library.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))


def blocks(section, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", SECTIONS[section], re.DOTALL)


def execute(section, names):
    for block in blocks(section):
        if not block.startswith("# squares.py"):
            exec(compile(block, section, "exec"), names)


@pytest.fixture(scope="module")
def loaded():
    """Return the names of the examples that all others build upon."""
    names = {"__name__": "__main__", "ganexp": ganexp}
    for section in ("Without a configuration", "A loader of your own"):
        execute(section, names)
    return names


@pytest.fixture
def run(loaded, tmp_path, monkeypatch):
    """Return what runs further examples in a fresh folder, in one namespace."""
    monkeypatch.chdir(tmp_path)
    names = dict(loaded)

    def run(*sections):
        for section in sections:
            execute(section, names)
        return names

    return run


def test_every_section_is_run_here():
    ours = (CONF.parent / "tests" / "test_library.py").read_text()
    assert all(f'"{section}"' in ours for section in SECTIONS if blocks(section))


def test_examples_are_short():
    assert all(len([line for line in block.splitlines() if line]) <= 16 for section in SECTIONS for block in blocks(section))


def test_ten_lines_are_enough(capsys):
    (example,) = blocks("In ten lines")
    assert len([line for line in example.splitlines() if line]) <= 10
    exec(example, {})
    assert float(capsys.readouterr().out) > 0


def test_a_trained_generator(run, tmp_path, capsys):
    names = run("From a configuration", "A trained generator")
    assert names["trainer"].iteration == 100
    assert type(names["trainer"].gan.loss).__name__ == "Hinge"
    assert capsys.readouterr().out.splitlines()[-1] == "tensor(True)"
    again = ganexp.load(tmp_path / "runs" / "to_give_away")
    assert torch.equal(again.sample(64), names["images"])
    assert (tmp_path / "runs" / "generator.pt2").exists()


def test_a_loader(run):
    names = run()
    drawn = names["trainer"].reals
    assert drawn.images == 100 * 32
    assert all(any(torch.equal(image, one) for one in names["images"]) for image in drawn.last.values)


def test_a_data_set(run, tmp_path, monkeypatch):
    (module,) = [block for block in blocks("A dataset of your own") if block.startswith("# squares.py")]
    (tmp_path / "squares.py").write_text(module)
    (tmp_path / "my_conf" / "dataset").mkdir(parents=True)
    (tmp_path / "my_conf" / "dataset" / "squares.yaml").write_text(*blocks("A dataset of your own", "yaml"))
    monkeypatch.syspath_prepend(tmp_path)
    names = run("A dataset of your own")
    assert {1.0, -1.0} == set(names["trainer"].reals.last.values.unique().tolist())


@pytest.mark.slow
def test_a_data_set_on_the_command_line(tmp_path):
    (module,) = [block for block in blocks("A dataset of your own") if block.startswith("# squares.py")]
    (command,) = blocks("A dataset of your own", "bash")
    (tmp_path / "squares.py").write_text(module)
    (tmp_path / "my_conf" / "dataset").mkdir(parents=True)
    (tmp_path / "my_conf" / "dataset" / "squares.yaml").write_text(*blocks("A dataset of your own", "yaml"))
    command = command.strip().replace("python train.py", f"{sys.executable} {CONF.parent / 'train.py'}")
    command += " iterations=20 logger=[] hydra.run.dir=run"
    done = processes.run("bash", "-c", command, cwd=tmp_path)
    assert "Trained 20 iterations" in done.stdout, done.stderr


def test_a_strategy(run, capsys):
    names = run("A strategy of your own")
    assert capsys.readouterr().out.splitlines()[-1] == "{'d': 50, 'g': 100}"
    gan = names["new_gan"]()
    before = [parameter.clone() for parameter in gan.generator.parameters()]
    names["TwoForOne"]()(gan, iter(names["loader"].dataset.tensors[0].split(32)), d_steps=1, g_steps=1)
    assert all((one != other).any() for one, other in zip(before, gan.generator.parameters(), strict=True))


def test_the_readmes_strategy_is_detach(run):
    readme = (CONF.parent / "README.md").read_text()
    (snippet,) = re.findall(r"```python\n(def detach.*?)```", readme, re.DOTALL)
    names = run()
    own = {}
    exec(snippet, own)
    trained = []
    for strategy in (names["detach"], own["detach"]):
        torch.manual_seed(0)
        gan = names["new_gan"]()
        batches = [torch.randn(32, 1, 8, 8, generator=torch.Generator().manual_seed(1))]
        Trainer(Step(gan, strategy), batches, iterations=5).fit()
        trained.append(torch.cat([p.flatten() for p in gan.generator.parameters()]))
    assert torch.equal(*trained)


def test_parts_for_the_command_line(run):
    names = run("Parts for the command line")
    real, fake = torch.tensor([[2.0, 0.0], [4.0, 0.0]]), torch.tensor([[1.0, 3.0], [1.0, 1.0]])
    loss = names["Mine"]()
    assert (float(loss.d_loss(real, fake)), float(loss.g_loss(real, fake))) == (-2.0, -0.5)
    z = names["new_gan"]().sample()
    before = z.values.clone()
    assert torch.equal(names["louder"](z).values, 1.5 * before)
    own = Evaluator({"first_moment": names["FirstMoment"]()}, Raw((2,)), samples=2)
    own.see_reals([torch.zeros(4, 2)], 4)
    assert own([torch.tensor([[3.0, 4.0], [3.0, 4.0]])]) == {"eval/first_moment": 5.0}


def test_a_logger(run):
    names = run("A logger of your own")
    assert [iteration for iteration, _ in names["curve"].points] == [20, 40, 60, 80, 100]


@pytest.mark.slow
def test_a_wandb_run(run, tmp_path, monkeypatch):
    import wandb

    from tests.logging.records import records

    wandb.teardown()  # a session of an earlier test would keep its folder
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))  # no account
    run("A logger of your own", "A W&B run of your own")
    found, place = records(tmp_path)
    rows = [record["item"] for record in found["history"]]
    assert [row["progress/iteration"] for row in rows] == [0, 50, 100]
    assert len(list(place.glob("files/media/images/*.png"))) == 4  # the first samples, beside real images


def test_going_on(run, tmp_path):
    names = run("Resuming")
    assert names["trainer"].iteration == 100
    assert names["trainer"].trained_s > 0
    assert (tmp_path / "runs" / "mine" / "checkpoints" / "iteration_000000100.pt").exists()


@pytest.mark.parametrize("overrides", [[], ["loss=hinge", "optimizer.d.lr=4e-4"], ["experiment=began", "latent_dim=3"]])
def test_a_composed_configuration_is_the_command_lines(overrides):
    assert ganexp.compose(*overrides) == composed(*overrides)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of what is built from, in a folder called as the package is."""
    folder = tmp_path_factory.mktemp("beside") / "ganexp"
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "train.py"):
        shutil.copy(CONF.parent / name, folder)
    for name in ("conf", "ganexp"):
        shutil.copytree(CONF.parent / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def python(*arguments, cwd):
    done = processes.run(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pip(interpreter, *arguments, cwd):
    python(interpreter, "-m", "pip", *arguments, "-q", "--no-deps", "--no-build-isolation", "--no-index", cwd=cwd)


TRAINS = """
import ganexp, inspect
small = ["dataset.image_size=8", "generator=mlp", "discriminator=mlp", "iterations=3"]
trainer = ganexp.build(ganexp.compose("loss=hinge", *small))
trainer.fit()
print(ganexp.__file__, trainer.iteration, type(trainer.gan.loss).__name__)
"""


@pytest.mark.slow
def test_a_notebook_beside_the_clone_finds_the_package_once_it_is_installed(clone, tmp_path):
    python(sys.executable, "-m", "venv", "--without-pip", tmp_path / "environment", cwd=tmp_path)
    (own,) = (tmp_path / "environment").glob("lib/python*/site-packages")
    (own / "shared.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    interpreter = tmp_path / "environment" / "bin" / "python"
    pip(interpreter, "install", "-e", clone, cwd=tmp_path)
    said = python(interpreter, "-c", TRAINS, cwd=clone.parent)
    assert said.splitlines()[-1] == f"{clone / 'ganexp' / '__init__.py'} 3 Hinge"


@pytest.mark.slow
def test_a_wheel_brings_everything_and_trains(clone, tmp_path):
    pip(sys.executable, "wheel", "-w", tmp_path, clone, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    pip(sys.executable, "install", "--target", tmp_path / "site", wheel, cwd=tmp_path)
    for suffix in ("py", "yaml", "css", "js"):
        there = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site" / "ganexp").rglob(f"*.{suffix}")}
        assert there == {str(path.relative_to(clone)) for path in (clone / "ganexp").rglob(f"*.{suffix}")} | {
            str("ganexp" / path.relative_to(clone)) for path in (clone / "conf").rglob(f"*.{suffix}")
        }
    said = python(sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n{TRAINS}", cwd=tmp_path)
    assert said.splitlines()[-1] == f"{tmp_path / 'site' / 'ganexp' / '__init__.py'} 3 Hinge"
    empty = tmp_path / "empty"
    empty.mkdir()
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import runpy; sys.argv = sys.argv[1:]"
    ganexp = (sys.executable, "-c", f"{code}; runpy.run_path(sys.argv[0], run_name='__main__')", tmp_path / "site/bin/ganexp")
    small = ("dataset.image_size=8", "generator=mlp", "discriminator=mlp", "logger=[]", "device=cpu")
    python(*ganexp, "train", "iterations=2", *small, cwd=empty)
    assert json.loads((empty / "outputs/latest/summary.json").read_text())["iteration"] == 2
    assert "ganexp train iterations=2" in (empty / "outputs/latest/provenance.json").read_text()
    python(*ganexp, "sample", "outputs/latest", "--n", 4, cwd=empty)
    assert (empty / "outputs/latest/generated/grid_seed0.png").exists()
    python(*ganexp, "report", "outputs/latest", cwd=empty)
    assert [path.name for path in empty.iterdir()] == ["outputs"]
