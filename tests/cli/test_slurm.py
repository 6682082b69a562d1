"""`docs/slurm.sbatch`: several nodes, and a warning before the time is over → a checkpoint → the queue → the same result."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from tests.cli.slurm_stand_in import install
from tests.cli.small_runs import SMALL, rows
from tests.cli.test_torchrun import started_by_hand
from tests.composing import CONF

SCRIPT = CONF.parent / "docs" / "slurm.sbatch"
RUN = [*SMALL, "batch_size=6", "iterations=200", "threads=1", "checkpoint_every=10", "log_every=20", "sample_every=0"]


def test_the_script_is_shell():
    subprocess.run(["bash", "-n", SCRIPT], check=True)


@pytest.fixture
def submit(tmp_path):
    """Submit the committed script from a folder like a clone, and end what is left of it."""
    install(tmp_path / "bin")
    begun = []

    def start(name):
        place = tmp_path / name
        place.mkdir()
        for part in ("train.py", "conf"):
            (place / part).symlink_to(CONF.parent / part)
        environment = {
            **os.environ,
            **{"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(CONF.parent)},
            "PATH": os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        }
        options = ["--nodes=2", "--gpus-per-node=1"]
        with (place / "said").open("w") as said:
            job = subprocess.Popen(["sbatch", *options, SCRIPT, *RUN], cwd=place, env=environment, stdout=said, stderr=said)
        begun.append(job)
        return place, job

    yield start
    for job in begun:
        if job.poll() is None:
            for process in [*psutil.Process(job.pid).children(recursive=True), psutil.Process(job.pid)]:
                process.kill()
            job.wait()


@pytest.mark.slow
def test_a_job_whose_time_is_over_goes_back_into_the_queue_and_ends_as_an_uninterrupted_one(submit, tmp_path):
    assert [code for code, _, _ in started_by_hand([[*RUN, "hydra.run.dir=whole"]] * 2, tmp_path)] == [0, 0]
    place, job = submit("told")
    run, end = place / "outputs" / "slurm_4711" / "attempt_0", time.monotonic() + 90
    while not (run / "checkpoints" / "last.pt").exists():
        assert time.monotonic() < end, (place / "said").read_text()
        assert job.poll() is None, (place / "said").read_text()
        time.sleep(0.02)
    job.send_signal(signal.SIGUSR1)
    assert job.wait(240) == 0, (place / "said").read_text()
    said = (place / "said").read_text()
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
    assert len(losses[0]) == 10
