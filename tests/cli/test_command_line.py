"""`python train.py` as a person types it, in processes of their own, or forked ones where only sentences matter."""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import pty
import re
import runpy
import struct
import subprocess
import sys
import termios

import pytest
import torch
from hydra.errors import MissingConfigException
from omegaconf import OmegaConf
from PIL import Image
from torchvision import datasets

from ganexp.cli import process, sweep
from ganexp.cli.ending import epilogue
from ganexp.cli.hydra_errors import sentence
from ganexp.facts import UserError
from tests import forked
from tests.calling import call
from tests.composing import CONF
from tests.processes import TRAIN, run, train
from tests.small_runs import SMALL

TINY = ["generator.width=4", "discriminator.width=4", "iterations=4", "log_every=2"]


BROKEN = """
def broken(gan, reals, *, d_steps, g_steps):
    if gan.prior.device.type != "meta":  # where it is tried beforehand
        raise RuntimeError("as planned")
"""


def test_a_run_ends_with_where_everything_is(tmp_path):
    done = forked.train(*TINY, "loss=softmaxgan", "strategy=joint", "d_steps=1", "g_steps=2", "logger=[]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no bar where there is no terminal
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Decoded images are kept in")]
    assert lines.pop(0) == "Preparing dataset=digits loss=softmaxgan strategy=joint."
    assert re.match(r"Training in outputs/\S+_digits_softmaxgan_joint_generator\S+_seed0, on c.*, in (fp|tf)32\.", lines[0])
    assert lines[1:4] == [
        "dataset=digits: 1,797 samples of 1×32×32.",
        "generator=dcgan: 19,065 parameters, 196,608 floating-point operations per sample.",
        "discriminator=dcgan: 2,909 parameters, 164,352 floating-point operations per sample.",
    ]
    for line, iteration in zip(lines[4:6], (2, 4), strict=True):
        assert re.fullmatch(rf"{iteration}/4  D [\d.]+  G [\d.]+  [\d,]+ images/s(  [\d:]+ left)?", line)
    (log,) = tmp_path.glob("outputs/*_seed0/train.log")
    assert all(line in log.read_text() for line in lines)
    lines = lines[next(i for i, line in enumerate(lines) if line.startswith("Trained")) :]
    assert re.match(r"Trained 4 iterations in \d+ s: D [\d.]+, G [\d.]+, [\d,]+ images/s\.", lines[0])
    places = dict(line.split(None, 1) for line in lines[1:] if line.startswith("  "))
    assert set(places) == {"samples", "checkpoint", "rows"}
    with Image.open(tmp_path / places["samples"]) as grid:
        assert grid.size == (274, 274)
    assert torch.load(tmp_path / places["checkpoint"], weights_only=True)["config"]["g_steps"] == 2
    rows = [json.loads(line) for line in (tmp_path / places["rows"]).read_text().splitlines()]
    assert rows[-1]["progress/g_updates"] == 8
    (run,) = (path for path in (tmp_path / "outputs").iterdir() if path.name != "latest")
    assert re.search(r"_digits_softmaxgan_joint_generator\.width4_[0-9a-f]{6}_seed0$", run.name)
    assert {"metrics.jsonl", "samples", "checkpoints", "summary.json", "config.json", "provenance.json", ".hydra"} <= {
        path.name for path in run.iterdir()
    }


@pytest.mark.slow
def test_a_terminal_sees_a_bar_with_losses_and_speed(tmp_path):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    command = [sys.executable, TRAIN, *TINY, "logger=[]"]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=slave)
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):  # which is how a terminal says that nobody writes to it any more
        while part := os.read(master, 10_000):
            seen += part
    os.close(master)
    assert process.wait(60) == 0
    seen, said = seen.decode(), (tmp_path / "said").read_text()
    assert "4/4" in seen
    assert "images/s" not in said.partition("Trained")[0]  # nothing is said twice
    assert re.search(r"D \d\.\d+  G \d\.\d+  [\d,]+ images/s", seen)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["d_steps=0"], "d_steps"),
        (["hydra.run.dir=${nothing}"], "nothing"),
        (["hydra.run.dir=/proc/run"], "hydra.run.dir"),
        (["hydra.job.chdir=true"], "hydra.job.chdir=true would make relative paths mean places below the run folder"),
        (["--loss=hinge"], "--loss=hinge is not an option: write keys without hyphens, as loss=hinge. "),
        (["-loss", "hinge"], "-loss is not an option: write keys without hyphens, as loss=…. "),
        (["iterations=2)"], "iterations=2)"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(arguments, sentence, tmp_path):
    done = forked.train(*arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert done.stdout in ("", "Preparing dataset=digits loss=nonsaturating strategy=detach.\n")
    said = done.stderr.strip()
    assert said.startswith("Error: ")
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "outputs").exists()


def test_all_that_is_missing_is_said_at_once_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.MNIST, "mirrors", [])
    (tmp_path / "cwd").mkdir()
    features = ("evaluate_every=5", "evaluation.features=none.pt2")
    done = forked.train("dataset=mnist", f"data_root={tmp_path}/none", *features, cwd=tmp_path / "cwd")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert all(part in done.stderr for part in ("evaluation.features=none.pt2", "dataset: MNIST"))
    assert len(done.stderr.splitlines()) == 1
    assert list((tmp_path / "cwd").iterdir()) == []


def test_slurm_without_a_cluster_is_one_sentence(tmp_path):
    done = forked.train("-m", "hydra/launcher=slurm", "seed=0,1", cwd=tmp_path, PATH=os.path.dirname(sys.executable))
    assert done.returncode == 1
    assert done.stdout == "Preparing a sweep.\n"
    assert done.stderr.startswith("Error: hydra/launcher=slurm needs a SLURM cluster, and there is no srun on this machine")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_version_is_ours_and_torchs(tmp_path):
    done = forked.train("--version", cwd=tmp_path)
    ours, torchs = (importlib.metadata.version(name) for name in ("ganexp", "torch"))
    assert done.stdout == f"ganexp {ours}, torch {torchs}, Python {sys.version.split()[0]}\n"


def test_a_bug_shows_its_traceback_and_keeps_it_in_the_log(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken.py").write_text(BROKEN)
    done = forked.train(*SMALL, "strategy._target_=broken.broken", "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode != 0
    assert "Traceback" in done.stderr + done.stdout
    assert "as planned" in (tmp_path / "run" / "train.log").read_text()
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["state"] == "failed"


def test_the_configuration_is_printed_without_training(tmp_path):
    done = forked.train("--cfg", "job", "--resolve", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "batch_size: 32" in done.stdout


def test_a_plugin_that_is_not_installed_is_named_with_its_extra():
    error = MissingConfigException("missing", "hydra/launcher/submitit_slurm", ["basic"])
    assert sentence(error) == ("hydra/launcher=submitit_slurm is a plugin that is not installed: pip install -e '.[submitit]'.")
    error = MissingConfigException("In 'hydra/launcher/machines': Could not load", "hydra/launcher/ray")
    assert sentence(error) == ("hydra/launcher=ray is a plugin that is not installed: pip install -e '.[ray]'.")


def test_jobs_side_by_side_without_the_plugin_name_its_extra(monkeypatch):
    monkeypatch.setattr(sweep, "find_spec", lambda name: None)
    launcher = OmegaConf.load(CONF / "hydra" / "launcher" / "parallel.yaml")
    with pytest.raises(UserError, match=r"hydra/launcher=joblib is a plugin .*\[joblib\]"):
        sweep._check_launcher(launcher)


def test_a_search_without_optuna_names_its_extra(monkeypatch):
    monkeypatch.setattr(sweep, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^hydra/sweeper=search .*\[optuna\]"):
        sweep._check_search(OmegaConf.create(), [])


@pytest.mark.parametrize("jobs", [0, 1.5, "two"])
def test_a_wrong_number_of_jobs_at_once_is_refused_by_its_key(jobs):
    launcher = OmegaConf.load(CONF / "hydra" / "launcher" / "parallel.yaml")
    launcher.n_jobs = jobs
    with pytest.raises(UserError, match=r"^hydra\.launcher\.n_jobs "):
        sweep._check_launcher(launcher)


@pytest.mark.parametrize(
    ("command", "package"), [(["report", "a"], "plotly"), (["dashboard", "--entity=a"], "wandb_workspaces")]
)
def test_a_command_without_its_extra_is_one_sentence(command, package, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "metrics.jsonl").touch()
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"ganexp.cli.commands.{command[0]}.run", raising=False)
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        SystemExit, match=rf"^Error: this needs .*, which is not installed: pip install -e '\.\[{command[0]}\]'\.$"
    ):
        call(*command)


def test_the_end_of_a_run_that_has_no_row_yet():
    assert epilogue({"iteration": 3, "wall_s": 1.2, "last": {}, "notes": [], "paths": {}}) == "Trained 3 iterations in 1 s."


def test_the_end_of_a_run_names_every_place_but_its_folder():
    paths = {"checkpoint": "a", "folder": "b", "W&B": "c", "TensorBoard": "d", "Trackio": "e", "upload": "f"}
    said = epilogue({"iteration": 3, "wall_s": 1.2, "last": {}, "notes": [], "paths": paths})
    places = ["checkpoint  a", "W&B         c", "TensorBoard d", "Trackio     e", "upload      f"]
    assert said.splitlines()[1:] == [f"  {place}" for place in places]


def test_latest_is_the_newest_run(tmp_path):
    for seed in (0, 1):
        done = forked.train(*SMALL, "iterations=4", f"seed={seed}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    link = tmp_path / "outputs" / "latest"
    assert link.is_symlink()
    assert link.resolve().name.endswith("_seed1")
    done = forked.train("resume=outputs/latest", "iterations=6", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert link.resolve().name.endswith("_seed1")
    assert json.loads((link / "summary.json").read_text())["iteration"] == 6


@pytest.mark.slow
def test_shell_completion_knows_options(tmp_path):
    done = train("-sc", "query=bash", cwd=tmp_path, COMP_LINE="python train.py loss=so", COMP_POINT="23")
    assert done.stdout.split() == ["loss=softmaxgan"], done.stderr


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({}, "3000"),
        pytest.param({"GOMP_SPINCOUNT": "7"}, "7", marks=pytest.mark.slow),
        pytest.param({"OMP_WAIT_POLICY": "passive"}, "0", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_idle_threads_sleep_soon_unless_the_user_says_otherwise(given, count, monkeypatch):
    """OpenMP itself says, when it is loaded, what it has understood."""
    for name in process.CHOSEN:
        monkeypatch.delenv(name, raising=False)
    code = "from ganexp.cli import process; process.begin(); import torch"
    done = run(sys.executable, "-c", code, cwd=CONF.parent, OMP_DISPLAY_ENV="verbose", **given)
    assert f"GOMP_SPINCOUNT = '{count}'" in done.stderr


SCRIPTS = [path for path in sorted((CONF.parent / "scripts").glob("*.py")) if "def main(" in path.read_text()]
COMMANDS = [[path] for path in [CONF.parent / "train.py", *SCRIPTS]] + [
    [CONF.parent / "ganexp" / "__main__.py", *words] for words in (["train"], ["features", "digits"])
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command[0].stem} {' '.join(command[1:])}")
def test_every_command_begins_before_it_imports_torch(command, monkeypatch):
    class Begun(Exception):
        pass

    def begin():
        raise Begun

    monkeypatch.setattr(sys, "argv", [*map(str, command)])
    monkeypatch.setattr("ganexp.cli.process.begin", begin)
    monkeypatch.setitem(sys.modules, "torch", None)  # so that it cannot be imported
    with pytest.raises(Begun):
        runpy.run_path(str(command[0]), run_name="__main__")
