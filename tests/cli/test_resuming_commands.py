"""Resuming runs and sweeps as a person does, by the printed command, in processes of their own."""

import json
import re
import shlex
import signal
import sys

import filelock
import pytest
from omegaconf import OmegaConf

from ganexp.cli.ending import command_to_resume
from ganexp.training import checkpoint
from tests import forked
from tests.processes import TRAIN, begin, train

TINY = ["generator.width=4", "discriminator.width=4", "dataset.image_size=16", "device=cpu", "logger=[]"]
MINE = """
from ganexp.losses import Hinge

class Loss(Hinge):
    pass
"""
SLOW = """
import time
from pathlib import Path
from ganexp.strategies import detach

def slow(gan, reals, *, d_steps, g_steps):
    detach(gan, reals, d_steps=d_steps, g_steps=g_steps)
    time.sleep(0 if Path("hurry").exists() else 1)
"""


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_refused_resume_leaves_everything_as_it_was_and_the_next_one_goes_on(tmp_path, monkeypatch):
    """In a folder with an awkward name, with configurations and a class of one's own."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "presets" / "experiment").mkdir(parents=True)
    (tmp_path / "presets" / "experiment" / "wide.yaml").write_text("# @package _global_\nbatch_size: 9\n")
    folder = tmp_path / "a (b), {c}='d' ü"
    quoted = str(folder).replace("'", "\\'")
    conditions = ["-cd", "presets", "experiment=wide", "loss._target_=mine.Loss", f"hydra.run.dir='{quoted}'"]
    done = forked.train(*conditions, *TINY, "iterations=4", "log_every=2", "checkpoint_every=2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "config.json").read_text())["loss"]["name"] == "Loss"

    folder = folder.rename(tmp_path / "a (b), ${c}='d' ü")
    before = contents(folder)
    again = [f"resume={folder.name}", "trust=mine"]
    done = forked.train(*again, "batch_size=7", cwd=tmp_path)
    assert done.returncode == 1
    assert "was trained with other values of batch_size" in done.stderr
    assert "init_from=" in done.stderr
    assert contents(folder) == before
    with filelock.FileLock(folder / ".lock"):
        done = forked.train(*again, "iterations=6", cwd=tmp_path)
    assert done.returncode == 1
    assert "another process is training in" in done.stderr
    assert contents(folder) == before

    done = forked.train(*again, "iterations=6", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = checkpoint.load(folder / "checkpoints" / "last.pt")
    assert (kept["run"]["iteration"], kept["config"]["batch_size"]) == (6, 9)


@pytest.mark.slow
def test_starts_in_one_second_all_get_a_folder_with_their_own_overrides(tmp_path):
    rates = ["1e-3", "1e-3", "2e-3"]
    ends = forked.train_at_once([((*TINY, "iterations=1", f"optimizer.lr={rate}"), {}) for rate in rates], tmp_path)
    assert [end.returncode for end in ends] == [0, 0, 0], ends
    folders = [path for path in (tmp_path / "outputs").glob("*_seed0*") if not path.is_symlink()]
    assert len(folders) == 3
    kept = [json.loads((folder / "config.json").read_text())["optimizer"]["g"]["lr"] for folder in folders]
    assert sorted(kept) == [float(rate) for rate in rates]
    for folder, rate in zip(folders, kept, strict=True):
        typed = OmegaConf.load(folder / ".hydra" / "overrides.yaml")
        assert float(next(one for one in typed if one.startswith("optimizer.lr=")).partition("=")[2]) == rate


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "name"), [([], "SIGTERM"), (["hydra/launcher=parallel", "hydra.launcher.n_jobs=2"], "SIGHUP")]
)
def test_a_signal_stops_a_sweep_with_checkpoints_and_a_living_one_is_not_resumed(launcher, name, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    sweep = ["-m", *launcher, "seed=0,1", "strategy._target_=mine.slow", "trust=mine", *TINY, "iterations=120", "log_every=5"]
    process = begin(*sweep, "checkpoint_every=0", cwd=tmp_path)
    assert process.until(lambda: any(path.read_text() for path in tmp_path.glob("outputs/*_multirun/*/metrics.jsonl")))
    (folder,) = tmp_path.glob("outputs/*_multirun")
    before = sorted(folder.rglob("attempt*"))
    done = forked.train(*sweep, "checkpoint_every=0", f"sweep.resume={folder}", cwd=tmp_path)
    assert done.returncode == 1
    assert "is in use (another process is training in" in done.stderr
    assert sorted(folder.rglob("attempt*")) == before == []

    process.send_signal(getattr(signal, name))
    out, err = process.ended()
    assert process.returncode == 128 + getattr(signal, name), err
    assert "Traceback" not in err
    summaries = [json.loads(path.read_text()) for path in folder.glob("*/summary.json")]
    assert {summary["state"] for summary in summaries} <= {"preempted", "finished"}
    stopped = [path for path in folder.glob("*_*") if (path / "checkpoints" / "last.pt").exists()]
    assert stopped
    (tmp_path / "hurry").touch()
    command = shlex.split(re.search(f"Stopped by {name}; to resume: python (.*)", out)[1])
    assert command[0] == TRAIN
    done = train(*command[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ends = [json.loads(path.read_text()) for path in folder.glob("*/summary.json")]
    assert [(end["state"], end["iteration"]) for end in ends] == [("finished", 120)] * 2
    for path in folder.glob("*/metrics.jsonl"):
        iterations = [json.loads(line)["progress/iteration"] for line in path.read_text().splitlines()]
        assert iterations == sorted(set(iterations))
    assert not list(folder.rglob("attempt*"))


def test_the_command_names_what_the_user_trusts_and_no_more(monkeypatch):
    for said, kept in (("trust=[]", ""), ("trust=[mine]", " 'trust=[mine]'")):
        monkeypatch.setattr(sys, "argv", ["train.py", "resume=outputs/a", said])
        assert command_to_resume("resume=outputs/a") == f"python train.py resume=outputs/a{kept}"
    words = ["hydra.sweep.dir=a", "hydra/launcher=parallel", "seed=0,1", "trust=mine"]
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", *words])
    again = "python train.py -m sweep.resume=a hydra/launcher=parallel seed=0,1 trust=mine"
    assert command_to_resume("sweep.resume=a") == again
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "sweep.resume=a", *words[1:]])
    assert command_to_resume("sweep.resume=a") == again
    monkeypatch.setattr(sys, "argv", ["ganexp train", "loss=hinge"])
    assert command_to_resume("resume=outputs/a") == "ganexp train resume=outputs/a"


def test_the_command_starts_as_many_processes_again(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    for program, words in (("train.py", "train.py"), ("ganexp train", "-m ganexp train")):
        monkeypatch.setattr(sys, "argv", [program])
        for machines, several in (("1", ""), ("3", " --nnodes=3 …")):
            monkeypatch.setenv("GROUP_WORLD_SIZE", machines)
            assert command_to_resume("resume=a") == f"torchrun{several} --nproc_per_node=2 {words} resume=a"
