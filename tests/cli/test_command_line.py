"""`python train.py` as a person types it, in processes of their own, or forked ones where only sentences matter."""

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
from PIL import Image
from torchvision import datasets

from ganexp.cli.ending import epilogue
from ganexp.cli.hydra_errors import sentence
from ganexp.cli.quiet import wait_quietly
from tests import forked
from tests.calling import call
from tests.cli.small_runs import SMALL
from tests.composing import CONF
from tests.data.tars import shards

TINY = ["generator.width=4", "discriminator.width=4", "iterations=4", "log_every=2"]


BROKEN = """
def broken(gan, reals, *, d_steps, g_steps):
    if gan.prior.device.type != "meta":  # where it is tried beforehand
        raise RuntimeError("as planned")
"""


def train(*arguments, cwd, **environment):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
    clean |= {"NETRC": str(cwd / "no-netrc"), "OMP_NUM_THREADS": "1"} | environment
    command = [sys.executable, str(CONF.parent / "train.py"), *arguments]
    return subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_a_run_ends_with_where_everything_is(tmp_path):
    done = train(*TINY, "loss=softmaxgan", "strategy=joint", "d_steps=1", "g_steps=2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no bar where there is no terminal
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Decoded images are kept in")]
    assert re.match(r"Training in outputs/\S+_digits_softmaxgan_joint_generator\S+_seed0, on c.*, in (fp|tf)32\.", lines[0])
    assert lines[1:4] == [
        "dataset=digits: 1,797 samples of 1×32×32.",
        "generator=dcgan: 19,065 parameters, 196,608 floating-point operations per sample.",
        "discriminator=dcgan: 2,909 parameters, 164,352 floating-point operations per sample.",
    ]
    for line, iteration in zip(lines[4:6], (2, 4), strict=True):
        assert re.fullmatch(rf"{iteration}/4  D [\d.]+  G [\d.]+  [\d,]+ images/s", line)
    (log,) = tmp_path.glob("outputs/*_seed0/train.log")
    assert all(line in log.read_text() for line in lines)
    lines = lines[next(i for i, line in enumerate(lines) if line.startswith("Trained")) :]
    assert re.match(r"Trained 4 iterations in \d+ s: D [\d.]+, G [\d.]+, [\d,]+ images/s\.", lines[0])
    places = dict(line.split(None, 1) for line in lines[1:] if line.startswith("  "))
    assert set(places) == {"samples", "checkpoint", "rows", "W&B"}
    assert places["W&B"] == "wandb leet outputs/wandb"
    with Image.open(tmp_path / places["samples"]) as grid:
        assert grid.size == (274, 274)
    assert torch.load(tmp_path / places["checkpoint"], weights_only=True)["config"]["g_steps"] == 2
    rows = [json.loads(line) for line in (tmp_path / places["rows"]).read_text().splitlines()]
    assert rows[-1]["progress/g_updates"] == 8
    (run,) = (path for path in (tmp_path / "outputs").iterdir() if path.name not in ("wandb", "latest"))
    changed = "generator.width4_discriminator.width4_d_steps1_g_steps2"
    assert run.name.endswith(f"_digits_softmaxgan_joint_{changed}_seed0")
    assert {"metrics.jsonl", "samples", "checkpoints", "summary.json", "config.json", "provenance.json", ".hydra"} <= {
        path.name for path in run.iterdir()
    }


def test_a_terminal_sees_a_bar_with_losses_and_speed(tmp_path):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    command = [sys.executable, str(CONF.parent / "train.py"), *TINY, "wandb.mode=disabled"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=slave, text=True)
    os.close(slave)
    said, _ = process.communicate()
    seen = os.read(master, 100_000).decode()
    os.close(master)
    assert process.returncode == 0
    assert "4/4" in seen
    assert "images/s" not in said.partition("Trained")[0]  # nothing is said twice
    assert re.search(r"D \d\.\d+  G \d\.\d+  [\d,]+ images/s", seen)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["d_steps=0"], "d_steps should be greater than or equal to 1, not 0."),
        (["d_stepz=2"], "d_stepz is no key of the configuration; did you mean d_steps?"),
        (["batch_size=1000000"], "for what the networks' backward passes keep, and there are"),
        (["lr=1e-3"], "lr is no key of the configuration; it is optimizer.lr here."),
        (["epochs=3"], "epochs is no key of the configuration; it is iterations here."),
        (["losss=hinge"], "losss is no key of the configuration; did you mean loss?"),
        (["loss=hingee"], "loss=hingee is not an option; choose one of acgan, began, ebgan, hinge, lsgan, minimax, "),
        (["generator.wdth=3"], "generator.wdth is no key of the configuration; did you mean width?"),
        (["loss=began"], "choose discriminator=began"),
        (["loss=[hinge,wgan]"], "loss mixes several options into one"),
        (["optimizer=[adam,rmsprop]"], "optimizer mixes several options into one"),
        (["loss=hinge,wgan"], "add -m to run each of them"),
        (["generator.width=${nothing}"], "generator.width cannot be resolved"),
        (["hydra.run.dir=${nothing}"], "Interpolation key 'nothing' not found"),
        (["batch_size="], "batch_size should be a valid integer"),
        (["loss=null"], "loss=null: a group takes one of its options, as in loss=hinge"),
        (["augment=false"], "augment=false: a group takes one of its options"),
        (["hydra.run.dir=/proc/run"], "choose another hydra.run.dir"),
        ([f"hydra.run.dir={'x' * 300}"], "choose another hydra.run.dir"),
        (["generator.width=1000000000000"], "generator.width should be less than or equal to 65536, not 1000000000000."),
        (["strategy=detach,joint"], "strategy=detach,joint is several values: add -m to run each of them."),
        (["optimizer.betas=0.5,0.9"], "each of them, or write optimizer.betas=[0.5,0.9] for a list."),
        (["seed=range(3)"], "seed=range(3) is several values: add -m to run each of them."),
        (["generator.depth=3"], "generator.depth is no key of the configuration; this generator has batch_norm, width."),
        (["keep_best=fid"], "keep_best=fid is not logged with loss=nonsaturating; did you mean eval/fid?"),
        (["--loss=hinge"], "--loss=hinge is no option: keys are written without hyphens, here loss=hinge, "),
        (["-loss", "hinge"], "-loss is no option: keys are written without hyphens, here loss=…, "),
        (["iterations=1e4", "d_steps=2.5"], "d_steps should be a valid integer, not 2.5."),
        (["iterations=2)"], "iterations=2) cannot be read as key=value"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(arguments, sentence, tmp_path):
    done = forked.train(*arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert done.stdout == ""
    said = done.stderr.strip()
    assert said.startswith("Error: ")
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "outputs").exists()


def missing(tmp_path):
    """Return command lines that lack something, each with what the sentences must name, in their order."""
    (tmp_path / "empty.tar").touch()
    (tmp_path / "text.tar").write_text("no tar file" * 100)
    (tmp_path / "cut.tar").write_bytes(shards(n=3)[0][0][:1500])
    (tmp_path / "folder.tar").mkdir()
    (tmp_path / "images").mkdir()
    Image.new("RGB", (16, 16)).save(tmp_path / "images" / "0.png")
    (tmp_path / "images" / "1.png").write_text("no image")
    small = ["generator=mlp", "discriminator=mlp", "generator.width=4", "discriminator.width=4", "dataset.image_size=8"]
    for shard in ("empty", "text", "cut", "folder"):
        yield ["dataset=shards", f"dataset.path={tmp_path}/{shard}.tar", *small], [f"dataset: the shard {tmp_path}/{shard}.tar"]
    folder = ["dataset=image_folder", f"dataset.path={tmp_path}/images", "dataset.strict=true"]
    yield [*folder, *small], ["1.png cannot be decoded"]
    both = ["evaluation.features=classifier are not there", "dataset: MNIST is not in", "cannot be downloaded"]
    yield ["dataset=mnist", f"data_root={tmp_path}/none", "evaluate_every=5", *small], both


def test_all_that_is_missing_is_said_at_once_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.MNIST, "mirrors", [])
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    for arguments, parts in missing(tmp_path):
        done = forked.train(*arguments, cwd=cwd)
        assert done.returncode == 1, arguments
        assert done.stderr.startswith("Error: "), done.stderr
        assert [part for part in parts if part not in done.stderr] == [], done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert list(cwd.iterdir()) == []


def test_a_run_may_be_told_to_log_nothing(tmp_path):
    done = forked.train(*SMALL, "iterations=1", "hydra/job_logging=disabled", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (summary,) = tmp_path.glob("outputs/*_seed0/summary.json")
    assert json.loads(summary.read_text())["state"] == "finished"


def test_slurm_without_a_cluster_is_one_sentence(tmp_path):
    done = forked.train("-m", "hydra/launcher=slurm", "seed=0,1", cwd=tmp_path, PATH=os.path.dirname(sys.executable))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("Error: hydra/launcher=slurm needs a SLURM cluster, and there is no srun on this machine")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_version_is_ours_and_torchs(tmp_path):
    done = forked.train("--version", cwd=tmp_path)
    assert (
        done.stdout
        == f"ganexp {importlib.metadata.version('ganexp')}, torch {torch.__version__}, Python {sys.version.split()[0]}\n"
    )


def test_a_folder_that_holds_a_run_is_left_as_it_is(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("{}\n")
    done = forked.train(*TINY, f"hydra.run.dir={folder}", "wandb.mode=disabled", cwd=tmp_path)
    assert done.returncode != 0
    assert "holds a run already: choose another hydra.run.dir." in done.stderr
    assert [path.name for path in folder.iterdir()] == ["metrics.jsonl"]


def test_a_bug_shows_its_traceback_and_keeps_it_in_the_log(tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    done = train(*TINY, "strategy._target_=broken.broken", "wandb.mode=disabled", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode != 0
    assert "Traceback" in done.stderr + done.stdout
    (log,) = tmp_path.glob("outputs/*_seed0/train.log")
    assert "as planned" in log.read_text()
    (summary,) = tmp_path.glob("outputs/*_seed0/summary.json")
    assert json.loads(summary.read_text())["state"] == "failed"


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job", "--resolve"]])
def test_help_and_configuration_are_printed_without_training(arguments, tmp_path):
    done = forked.train(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "softmaxgan" in done.stdout if arguments == ["--help"] else "batch_size: 32" in done.stdout


def test_a_plugin_that_is_not_installed_is_named_with_its_extra():
    error = MissingConfigException("missing", "hydra/launcher/submitit_slurm", ["basic"])
    assert sentence(error) == ("hydra/launcher=submitit_slurm is a plugin that is not installed: pip install -e '.[submitit]'.")
    error = MissingConfigException("In 'hydra/sweeper/search': Could not load", "hydra/sweeper/optuna")
    assert sentence(error) == ("hydra/sweeper=optuna is a plugin that is not installed: pip install -e '.[optuna]'.")


@pytest.mark.parametrize(
    ("command", "package"), [(["report", "a"], "plotly"), (["dashboard", "--entity=a"], "wandb_workspaces")]
)
def test_a_command_without_its_extra_is_one_sentence(command, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"ganexp.cli.commands.{command[0]}", raising=False)
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(
        SystemExit, match=rf"^Error: this needs .*, which is not installed: pip install -e '\.\[{command[0]}\]'\.$"
    ):
        call(*command)


def test_the_end_of_a_run_that_has_no_row_yet():
    assert epilogue({"iteration": 3, "wall_s": 1.2, "last": {}, "notes": [], "paths": {}}) == "Trained 3 iterations in 1 s."


def test_latest_is_the_newest_run(tmp_path):
    for seed in (0, 1):
        done = forked.train(*TINY, f"seed={seed}", "wandb.mode=disabled", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    link = tmp_path / "outputs" / "latest"
    assert link.is_symlink()
    assert link.resolve().name.endswith("_seed1")
    done = forked.train("resume=outputs/latest", "iterations=6", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert link.resolve().name.endswith("_seed1")
    assert json.loads((link / "summary.json").read_text())["iteration"] == 6


def test_shell_completion_knows_options(tmp_path):
    done = train("-sc", "query=bash", cwd=tmp_path, COMP_LINE="python train.py loss=so", COMP_POINT="23")
    assert done.stdout.split() == ["loss=softmaxgan"], done.stderr


@pytest.mark.parametrize(
    ("given", "policy"), [({}, "PASSIVE"), pytest.param({"OMP_WAIT_POLICY": "active"}, "ACTIVE", marks=pytest.mark.slow)]
)
def test_idle_threads_sleep_beside_other_work_unless_the_user_says_otherwise(given, policy):
    """OpenMP itself says, when it is loaded, what it has understood."""
    clean = {key: value for key, value in os.environ.items() if key not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            command = [sys.executable, "-c", "from ganexp.cli.quiet import wait_quietly as w; w(); import torch"]
            environment = clean | given | {"OMP_DISPLAY_ENV": "true"}
            done = subprocess.run(command, cwd=CONF.parent, env=environment, capture_output=True, text=True, check=True)
        finally:
            busy.kill()
    assert f"OMP_WAIT_POLICY = '{policy}'" in done.stderr


SCRIPTS = [path for path in sorted((CONF.parent / "scripts").glob("*.py")) if "def main(" in path.read_text()]
COMMANDS = [[path] for path in [CONF.parent / "train.py", *SCRIPTS]] + [
    [CONF.parent / "ganexp" / "__main__.py", *words] for words in (["train"], ["sample", "a"])
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: f"{command[0].stem} {' '.join(command[1:])}")
def test_every_command_looks_at_the_cores_before_it_imports_torch(command, monkeypatch):
    class Looked(Exception):
        pass

    def look(interval):
        raise Looked

    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("psutil.cpu_percent", look)
    monkeypatch.setattr(sys, "argv", [*map(str, command)])
    monkeypatch.setattr("ganexp.cli.interrupting.at_once", lambda: None)  # which would stay
    monkeypatch.setitem(sys.modules, "torch", None)  # so that it cannot be imported
    with pytest.raises(Looked):
        runpy.run_path(str(command[0]), run_name="__main__")


@pytest.mark.parametrize(("percent", "cores", "policy"), [(20, 2, None), (30, 2, "passive"), (2, 16, None), (5, 16, "passive")])
def test_half_a_core_in_use_by_others_is_other_work(percent, cores, policy, monkeypatch):
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: percent)
    monkeypatch.setattr("psutil.cpu_count", lambda: cores)
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    wait_quietly()
    assert os.environ.get("OMP_WAIT_POLICY") == policy
