"""`torchrun … train.py`: one run by several processes, of which one speaks and one writes, and which end together."""

import json
import re
import shutil
import signal

import pytest
import torch

from ganexp.cli import failures, launching
from ganexp.cli.launching import identity
from ganexp.config.check import check
from ganexp.config.plain import plain
from ganexp.data import Dataset
from ganexp.distributed.group import FailedElsewhere
from ganexp.distributed.joining import join
from ganexp.distributed.processes import Processes
from ganexp.facts import UserError
from tests.cli.several import LONG, RUN, process_of, started_by_hand, torchrun
from tests.composing import composed
from tests.data.samples import folder_of_images
from tests.forked import train
from tests.small_runs import rows


def refused(commands, cwd, monkeypatch):
    """Return the one sentence, of one process, with which all are refused."""
    monkeypatch.setattr(failures, "SPEAKING_S", 0.1)
    ends = started_by_hand(commands, cwd)
    assert all(code == 1 for code, _, _ in ends), ends
    said = [err for _, _, err in ends if err]
    assert len(said) == 1, said
    assert "".join(out for _, out, _ in ends).count("\n") <= 1  # what is prepared
    assert [*cwd.iterdir()] == []
    assert re.fullmatch(r"Error: [^\n]+\.\n", said[0]), said[0]
    return said[0]


def test_one_process_writes_and_the_run_is_the_one_of_a_single_process(tmp_path):
    ends = started_by_hand([[*RUN, "hydra.run.dir=two"]] * 2, tmp_path)
    assert [code for code, _, _ in ends] == [0, 0]
    assert "in 2 processes" in ends[0][1]
    assert ends[1][1:] == ("", "")
    assert train(*RUN, "hydra.run.dir=one", cwd=tmp_path).returncode == 0
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["one", "two"]
    left = [sorted(str(path.relative_to(tmp_path / run)) for path in (tmp_path / run).rglob("*")) for run in ("one", "two")]
    assert left[0] == left[1]
    for one, two in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert one["progress/real_images"] == two["progress/real_images"]
        assert one.get("loss/d", 0) == pytest.approx(two.get("loss/d", 0), rel=1e-4)


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
    asked = [*(one for one in RUN if not one.startswith("dataset")), "dataset=image_folder", "dataset.image_size=[3,4]"]
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
    with pytest.raises(UserError, match=r"process 1 differs from process 0 in dataset\.path: start all"):
        launching.refuse_differing([here, there])


@pytest.mark.parametrize(
    ("choice", "said"),
    [("batch_size=7", "such as batch_size=8"), ("strategy=unrolled", "strategy"), ("cuda_graph=true", "cuda_graph")],
)
def test_what_several_processes_cannot_do_is_refused(choice, said):
    processes = Processes()
    processes.count = 2
    with pytest.raises(UserError, match=said):
        check(composed(*RUN, choice), processes=processes)


@pytest.mark.parametrize(("rank", "error"), [("0", UserError), ("1", FailedElsewhere)])
def test_one_process_says_that_there_is_no_address(rank, error, monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": rank, "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(error, match="MASTER_ADDR is not set"):
        join()


@pytest.mark.parametrize(("rank", "error"), [("0", UserError), ("1", SystemExit)])
def test_one_process_refuses_a_sweep(rank, error, monkeypatch):
    monkeypatch.setattr(failures, "SPEAKING_S", 0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", rank)
    with pytest.raises(error):
        launching.refuse_distributed()


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_with_one_checkpoint(tmp_path):
    made = torchrun(*LONG, cwd=tmp_path)
    process_of(1, made, "iteration_000000050.pt").send_signal(signal.SIGTERM)
    said = "".join(made.ended())
    assert made.returncode != 0
    assert said.count("Stopped by SIGTERM; to resume: torchrun --nproc_per_node=2 ") == 1
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["state"] == "preempted"
    assert (tmp_path / "run" / "checkpoints" / f"iteration_{summary['iteration']:09d}.pt").exists()


@pytest.mark.slow
def test_after_a_kill_torchrun_goes_on_from_the_last_checkpoint(tmp_path):
    made = torchrun(*LONG[:-1], "iterations=400", cwd=tmp_path, options=["--max-restarts=1"])
    process_of(1, made, "iteration_000000100.pt").kill()
    said = "".join(made.ended())
    assert made.returncode == 0, said
    assert said.count("Another process of this run has ended") <= 1
    assert [row["progress/iteration"] for row in rows(tmp_path / "run")] == [*range(50, 401, 50)]
    assert said.count("100/400") == 1, "it has begun anew"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_compiled_networks_train_as_those_of_one_process(tmp_path):
    dcgan = ["dataset=fake", "dataset.image_size=16", "dataset.n=23", "batch_size=12", "device=cpu", "logger=[]"]
    dcgan += ["generator=dcgan", "generator.width=4", "discriminator=dcgan", "discriminator.width=4", "sample_every=0"]
    dcgan += ["strategy=joint", "precision=fp64", "iterations=3"]
    made = torchrun(*dcgan, "compile=true", "hydra.run.dir=two", cwd=tmp_path)
    assert train(*dcgan, "hydra.run.dir=one", cwd=tmp_path).returncode == 0
    said = "".join(made.ended())
    assert made.returncode == 0, said
    one, two = (torch.load(tmp_path / run / "checkpoints/iteration_000000003.pt") for run in ("one", "two"))
    assert one["run"]["gan"]["meter"].pop("keys") == two["run"]["gan"]["meter"].pop("keys")
    torch.testing.assert_close(one["run"]["gan"], two["run"]["gan"], rtol=1e-8, atol=1e-9)
