"""Unusual but real surroundings of a process: closed streams, full screens, deleted folders, options of the interpreter."""

import shlex
import subprocess
import sys

import pytest

from tests.composing import CONF
from tests.small_runs import SMALL

TRAIN = [sys.executable, CONF.parent / "train.py", *SMALL, "iterations=2", "hydra.run.dir=run"]
HELP = [sys.executable, "-m", "ganexp", "compare", "--help"]
DRAW = [sys.executable, "-m", "ganexp", "sample", "run", "--n", "4"]
SURROUNDINGS = {
    "stdout closed": "{} >&-",
    "stderr closed": "{} 2>&-",
    "all streams closed": "{} <&- >&- 2>&-",
    "a full screen": "{} > /dev/full",
    "a reader that ends": "{} | true",
    "ASCII": "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii {}",
    "no home": "env -u HOME {}",
    "a home that is not there": "HOME=/nonexistent XDG_CACHE_HOME=/proc/x TMPDIR=/nonexistent {}",
    "one process of torchrun": "WORLD_SIZE=1 RANK=0 SLURM_NTASKS=4 SLURM_PROCID=1 {}",
    "threads of garbage": "OMP_NUM_THREADS=many COLUMNS=wide TERM=dumb TZ=garbage MPLBACKEND=garbage {}",
    "warnings as errors": "PYTHONWARNINGS=error {}",
    "without docstrings and assertions": "PYTHONOPTIMIZE=2 {}",
    "few files": "ulimit -n 32; {}",
}


def ended(snippet, cwd):
    done = subprocess.run(["bash", "-c", snippet], cwd=cwd, capture_output=True, text=True, timeout=300, errors="replace")
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done


@pytest.mark.slow
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_a_run_is_trained_and_drawn_from(surroundings, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(CONF.parent))
    for command, result in ((TRAIN, "run/summary.json"), (DRAW, "run/generated")):
        done = ended(SURROUNDINGS[surroundings].format(shlex.join(map(str, command))), tmp_path)
        told = "/dev/full" in SURROUNDINGS[surroundings] and command is DRAW  # which says where its result is, and cannot
        assert told or (tmp_path / result).exists(), done.stderr
    ended(SURROUNDINGS[surroundings].format(shlex.join(HELP)), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("command", [TRAIN, DRAW], ids=["train", "sample"])
def test_a_working_directory_that_was_deleted_is_one_sentence(command, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(CONF.parent))
    done = ended(f"mkdir gone; cd gone; rmdir ../gone; {shlex.join(map(str, command))}", tmp_path)
    assert done.stderr.startswith("Error: the working directory cannot be read (")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_working_directory_may_be_called_anything(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(CONF.parent))
    odd = tmp_path / "a ${b}, {c}='d'\nü"
    odd.mkdir()
    for command in (TRAIN, DRAW):
        ended(shlex.join(map(str, command)), odd)
    assert list((odd / "run" / "generated").glob("*.png"))
