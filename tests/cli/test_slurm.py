"""`docs/slurm.sbatch`: several nodes, and a warning before the time is over → a checkpoint → the queue → the same result."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cli.several import started_by_hand
from tests.cli.slurm_stand_in import install
from tests.composing import CONF
from tests.processes import Begun
from tests.small_runs import SMALL, rows

SCRIPT = CONF.parent / "docs" / "slurm.sbatch"
RUN = [*SMALL, "batch_size=6", "iterations=100", "threads=1", "checkpoint_every=10", "log_every=20", "sample_every=0"]


def test_the_script_is_shell():
    subprocess.run(["bash", "-n", SCRIPT], check=True, timeout=60)


def submitted(tmp_path):
    """Submit the committed script from a folder like a clone."""
    install(tmp_path / "bin")
    place = tmp_path / "told"
    place.mkdir()
    for part in ("train.py", "conf"):
        (place / part).symlink_to(CONF.parent / part)
    path = os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    options = ["--nodes=2", "--gpus-per-node=1"]
    return Begun("sbatch", *options, SCRIPT, *RUN, cwd=place, PATH=path, PYTHONPATH=str(CONF.parent))


@pytest.mark.slow
def test_a_job_whose_time_is_over_goes_back_into_the_queue_and_ends_as_an_uninterrupted_one(tmp_path):
    assert [code for code, _, _ in started_by_hand([[*RUN, "hydra.run.dir=whole"]] * 2, tmp_path)] == [0, 0]
    job = submitted(tmp_path)
    place = job.cwd
    run = place / "outputs" / "slurm_4711" / "attempt_0"
    assert job.until((run / "checkpoints" / "last.pt").exists), job.said()
    job.send_signal(signal.SIGUSR1)
    said = "".join(job.ended())
    assert job.returncode == 0, said
    assert (place / "requeued").read_text() == "4711\n"
    assert said.count("Stopped by SIGUSR1; to resume:") == 1
    assert said.count("in 2 processes") == 2, "two attempts of two processes"

    assert [path.name for path in run.parent.iterdir()] == ["attempt_0"], "one folder, whatever happens"
    folders = [tmp_path / "whole", run]
    states = [torch.load(one / "checkpoints" / "last.pt", weights_only=False)["run"]["gan"] for one in folders]
    for network in ("generator", "discriminator"):
        for name, value in states[0][network].items():
            assert torch.equal(value, states[1][network][name]), name
    losses = [[row.get("loss/d") for row in rows(one)] for one in folders]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 5
