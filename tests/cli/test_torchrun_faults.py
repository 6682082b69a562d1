"""What goes wrong in one of several processes ends all, or none, in a bounded time, and is said once."""

import json
import os
import subprocess
import sys

import psutil
import pytest

from ganexp.cli import launching
from ganexp.evaluation import Evaluator
from ganexp.training import checkpoints
from tests.cli.small_runs import rows
from tests.cli.test_torchrun import LONG, RUN, TRAIN, second_process, started_by_hand
from tests.composing import CONF

EVALUATED = ["evaluate_every=4", "evaluation.features=raw", "evaluation.measures=[density_coverage]", "evaluation.samples=600"]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "rank"), [("compare", 0), ("see", 0), ("see", 1)])
def test_an_evaluation_that_fails_in_any_process_ends_all(part, rank, tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "SPEAKING_S", 0.1)
    whole = getattr(Evaluator, part)

    def broken(self, given):
        if os.environ["RANK"] == str(rank):
            raise KeyError("a bug")
        return whole(self, given)

    monkeypatch.setattr(Evaluator, part, broken)
    ends = started_by_hand([[*RUN, *EVALUATED, "hydra.run.dir=run"]] * 2, tmp_path)
    assert all(code == 1 for code, _, _ in ends), ends
    said = "".join(out + err for _, out, err in ends)
    assert said.count("The run failed.") == 1, said
    assert 'raise KeyError("a bug")' in said
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["state"] == "failed"
    assert [row["progress/iteration"] for row in rows(tmp_path / "run")] == [0]


@pytest.mark.slow
def test_a_folder_that_takes_no_checkpoints_stops_none(tmp_path, monkeypatch):
    def read_only(*_, **__):
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(checkpoints, "save", read_only)
    ends = started_by_hand([[*RUN, "hydra.run.dir=run"]] * 2, tmp_path)
    assert [code for code, _, _ in ends] == [0, 0]
    said = ends[0][1] + ends[0][2]
    assert said.count("Read-only file system. The one before it is intact.") == 4  # at 3, 6, 9 and 10
    assert ends[1][1:] == ["", ""]


@pytest.mark.slow
def test_a_disk_that_fills_ends_all_with_one_sentence(tmp_path):
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(CONF.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", TRAIN]
    run = [*command, *RUN, "hydra.run.dir=run", *LONG]
    with subprocess.Popen(
        run, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as made:
        try:
            (tmp_path / "said").touch()
            second_process(made, tmp_path, "iteration_000000050.pt")
            (writer,) = [one for one in psutil.Process(made.pid).children() if one.environ().get("RANK") == "0"]
            writer.rlimit(psutil.RLIMIT_FSIZE, (3000, 3000))  # which holds for every write, as a full disk does
            said, _ = made.communicate(timeout=60)
        finally:
            for process in [*psutil.Process(made.pid).children(recursive=True), made] if made.poll() is None else []:
                process.kill()
    assert made.returncode != 0
    assert said.count("The disk is full ([Errno 27] File too large): what was written is kept; make room") == 1, said
    assert "No checkpoint at iteration" in said
    assert said.count("Traceback") == 1, "torchrun's own"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["state"] == "failed"
