"""What goes wrong in one of several processes ends all, or none, in a bounded time, and is said once."""

import json
import os
import re

import psutil
import pytest

from ganexp.cli import failures
from ganexp.evaluation import Evaluator
from ganexp.training import checkpoints
from tests.cli.several import LONG, RUN, process_of, started_by_hand, torchrun
from tests.small_runs import rows

EVALUATED = ["evaluate_every=4", "evaluation.features=raw", "measure=[density_coverage]", "evaluation.samples=600"]


@pytest.mark.slow
@pytest.mark.parametrize(("part", "rank"), [("compare", 0), ("extract", 1)])
def test_an_evaluation_that_fails_in_any_process_ends_all(part, rank, tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "SPEAKING_S", 0.1)
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
    assert len(re.findall(r"Read-only file system\.$", said, re.M)) == 4  # at 3, 6, 9 and 10, none of which leaves one
    assert ends[1][1:] == ("", "")


@pytest.mark.slow
def test_a_disk_that_fills_ends_all_with_one_sentence(tmp_path):
    made = torchrun(*LONG, cwd=tmp_path)
    process_of(0, made, "iteration_000000050.pt").rlimit(
        psutil.RLIMIT_FSIZE, (3000, 3000)
    )  # as a full disk does, for every write
    said = "".join(made.ended())
    assert made.returncode != 0
    assert said.count("The disk is full ([Errno 27] File too large): what was written is kept; make room") == 1, said
    assert "No checkpoint at iteration" in said
    assert said.count("Traceback") == 1, "torchrun's own"
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["state"] == "failed"
