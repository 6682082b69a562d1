"""`torchrun … train.py`: one run by several processes, of which one speaks and one writes, and which end together."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from ganexp.cli import launching
from ganexp.cli.launching import identity
from ganexp.config.plain import plain
from ganexp.config.schema import ConfigError
from ganexp.data import Dataset
from tests.cli.small_runs import SMALL, rows
from tests.composing import CONF, composed
from tests.data.samples import folder_of_images
from tests.forked import train

RUN = [*SMALL, "batch_size=6", "iterations=10", "threads=1"]
TRAIN = str(CONF.parent / "train.py")


def started_by_hand(commands, cwd, *, without=()):
    """Run the entry point once for each command's arguments, as torchrun does but for what is left out of the environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = {"WORLD_SIZE": len(commands), "LOCAL_WORLD_SIZE": len(commands), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def one(rank):
        environment = {**known, "RANK": rank, "LOCAL_RANK": rank, "GLOO_SOCKET_IFNAME": "lo"}
        kept = {key: str(value) for key, value in environment.items() if key not in without}
        result = train(*commands[rank], cwd=cwd, **kept)
        queue.put((rank, result.returncode, result.stdout, result.stderr))

    children = [context.Process(target=one, args=(rank,)) for rank in range(len(commands))]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    return [rest for _, *rest in sorted(queue.get() for _ in children)]


def refused(commands, cwd, monkeypatch, **settings):
    """Return the one sentence, of one process, with which all are refused."""
    monkeypatch.setattr(launching, "SPEAKING_S", 0.1)
    ends = started_by_hand(commands, cwd, **settings)
    assert all(code == 1 for code, _, _ in ends), ends
    said = [err for _, _, err in ends if err]
    assert len(said) == 1, said
    assert not any(out for _, out, _ in ends)
    assert [*cwd.iterdir()] == []
    assert re.fullmatch(r"Error: [^\n]+\.\n", said[0]), said[0]
    return said[0]


def test_one_process_writes_and_the_run_is_the_one_of_a_single_process(tmp_path):
    ends = started_by_hand([[*RUN, "hydra.run.dir=two"]] * 2, tmp_path)
    assert [code for code, _, _ in ends] == [0, 0]
    assert "in 2 processes" in ends[0][1]
    assert ends[1][1:] == ["", ""]
    assert train(*RUN, "hydra.run.dir=one", cwd=tmp_path).returncode == 0
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["one", "two"]
    left = [sorted(str(path.relative_to(tmp_path / run)) for path in (tmp_path / run).rglob("*")) for run in ("one", "two")]
    assert left[0] == left[1]
    for one, two in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert one["progress/real_images"] == two["progress/real_images"]
        assert one.get("loss/d", 0) == pytest.approx(two.get("loss/d", 0), rel=1e-4)


def test_a_batch_that_cannot_be_shared(tmp_path, monkeypatch):
    assert "such as batch_size=8." in refused([[*RUN, "batch_size=7"]] * 2, tmp_path, monkeypatch)


def test_processes_with_different_configurations(tmp_path, monkeypatch):
    said = refused([RUN, [*RUN, "d_steps=2", "optimizer.lr=1"]], tmp_path, monkeypatch)
    assert "process 1 differs from process 0 in d_steps, optimizer." in said


def test_processes_with_other_images_or_in_another_place(tmp_path, monkeypatch):
    (tmp_path / "cwd").mkdir()
    one, moved, other = (tmp_path / name for name in ("one", "moved", "other"))
    folder_of_images(one)
    shutil.copytree(one, moved)
    shutil.copytree(one, other)
    (other / "1.png").write_bytes((one / "0.png").read_bytes())
    asked = [*(one for one in RUN if not one.startswith("dataset")), "dataset=image_folder", "dataset.image_size=4"]
    said = refused([[*asked, f"dataset.path={place}"] for place in (one, other)], tmp_path / "cwd", monkeypatch)
    assert "process 1 differs from process 0 in the data that are read: start all with the same command and data" in said
    values = plain(composed(*asked, f"dataset.path={one}"))
    assert identity(values) == identity(values | {"dataset": values["dataset"] | {"path": str(moved)}})


class Placed(Dataset):
    """Data of one's own that have a place and no digest."""

    shape = (2,)

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self):
        return torch.zeros(9, 2)


def test_processes_whose_data_have_no_digest_read_the_same_place():
    node = {"_target_": f"{__name__}.Placed", "path": "here"}
    values = plain(composed(*RUN))
    here, there = (identity(values | {"dataset": node | {"path": place}}) for place in ("here", "there"))
    with pytest.raises(ConfigError, match=r"process 1 differs from process 0 in dataset\.path: start all"):
        launching.refuse_different([here, there])


@pytest.mark.parametrize("choice", ["strategy=unrolled", "cuda_graph=true", "discriminator.minibatch_deviation=true"])
def test_what_would_not_be_exact(choice, tmp_path, monkeypatch):
    assert choice.partition("=")[0] in refused([[*RUN, choice]] * 2, tmp_path, monkeypatch)


def test_no_address(tmp_path, monkeypatch):
    assert "MASTER_ADDR is not set" in refused([RUN] * 2, tmp_path, monkeypatch, without=("MASTER_ADDR",))


def test_a_sweep(tmp_path, monkeypatch):
    assert "-m trains one job after another" in refused([["-m", *RUN, "seed=0,1"]] * 2, tmp_path, monkeypatch)


@pytest.fixture
def torchrun(tmp_path):
    """Start torchrun with two processes, and end what is left of it."""
    begun = []

    def start(*arguments, options=()):
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(CONF.parent), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", *options, TRAIN]
        with (tmp_path / "said").open("w") as said:
            made = subprocess.Popen([*command, *arguments], cwd=tmp_path, env=environment, stdout=said, stderr=said)
        begun.append(made)
        return made

    yield start
    for made in begun:
        if made.poll() is None:
            for process in [*psutil.Process(made.pid).children(recursive=True), psutil.Process(made.pid)]:
                process.kill()
            made.wait()


def second_process(made, tmp_path, checkpoint):
    """Return the process of rank 1 as soon as there is a checkpoint."""
    end = time.monotonic() + 90
    while not (tmp_path / "run" / "checkpoints" / checkpoint).exists():
        assert time.monotonic() < end, (tmp_path / "said").read_text()
        assert made.poll() is None, (tmp_path / "said").read_text()
        time.sleep(0.02)
    children = psutil.Process(made.pid).children(recursive=True)
    (second,) = [
        child for child in children if child.environ().get("RANK") == "1" and Path(TRAIN).name in " ".join(child.cmdline())
    ]
    return second


LONG = [*RUN, "hydra.run.dir=run", "checkpoint_every=50", "log_every=50", "sample_every=0", "keep_checkpoints=1000"]
LONG += ["iterations=1000000"]


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_with_one_checkpoint(torchrun, tmp_path):
    made = torchrun(*LONG)
    second_process(made, tmp_path, "iteration_000000050.pt").send_signal(signal.SIGTERM)
    assert made.wait(60) != 0
    said = (tmp_path / "said").read_text()
    assert said.count("Stopped by SIGTERM; to resume:") == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["state"] == "preempted"
    assert (tmp_path / "run" / "checkpoints" / f"iteration_{summary['iteration']:09d}.pt").exists()


@pytest.mark.slow
def test_after_a_kill_torchrun_goes_on_from_the_last_checkpoint(torchrun, tmp_path):
    made = torchrun(*LONG[:-1], "iterations=600", options=["--max-restarts=1"])
    second_process(made, tmp_path, "iteration_000000100.pt").kill()
    assert made.wait(120) == 0, (tmp_path / "said").read_text()
    said = (tmp_path / "said").read_text()
    assert said.count("Another process of this run has ended") <= 1
    assert [row["progress/iteration"] for row in rows(tmp_path / "run")] == [*range(50, 601, 50)]
    assert said.count("100/600") == 1, "it has begun anew"


@pytest.mark.slow
def test_without_restarts_a_kill_ends_all_soon(torchrun, tmp_path):
    made = torchrun(*LONG)
    second_process(made, tmp_path, "iteration_000000050.pt").kill()
    assert made.wait(60) != 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["state"] == "failed"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_compiled_networks_train_as_those_of_one_process(torchrun, tmp_path):
    dcgan = ["dataset=fake", "dataset.image_size=16", "dataset.n=23", "batch_size=12", "device=cpu", "wandb.mode=disabled"]
    dcgan += ["generator=dcgan", "generator.width=4", "discriminator=dcgan", "discriminator.width=4", "sample_every=0"]
    dcgan += ["strategy=joint", "precision=fp64", "iterations=3"]
    made = torchrun(*dcgan, "compile=true", "hydra.run.dir=two")
    assert train(*dcgan, "hydra.run.dir=one", cwd=tmp_path).returncode == 0
    assert made.wait(240) == 0, (tmp_path / "said").read_text()
    one, two = (torch.load(tmp_path / run / "checkpoints/iteration_000000003.pt") for run in ("one", "two"))
    assert one["run"]["gan"]["meter"].pop("keys") == two["run"]["gan"]["meter"].pop("keys")
    torch.testing.assert_close(one["run"]["gan"], two["run"]["gan"], rtol=1e-8, atol=1e-9)
