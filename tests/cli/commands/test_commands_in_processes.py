"""`torchrun … -m ganexp sample` and `evaluate`: files and figures are those of one process."""

import json
import sys

import numpy as np
import pytest
import torch

from ganexp.cli import launching
from tests.calling import call
from tests.distributed.forks import several


def called(monkeypatch, name, *arguments):
    """Return what calls a command in one of several processes, and says what it returns or exits with."""

    def one(processes=None):
        torch.set_num_threads(1)
        monkeypatch.setattr(launching, "is_distributed", lambda: processes is not None)
        monkeypatch.setattr("ganexp.distributed.joining.join", lambda: processes)
        monkeypatch.setattr(launching, "exit_silently", lambda: sys.exit(1))
        try:
            return call(name, *arguments)
        except SystemExit as end:
            return end.code

    return one


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_samples_are_those_of_one_process_to_the_last_bit(run, tmp_path, monkeypatch):
    for form in ("png", "tar", "npz"):
        how = [run, "--images", "--n", 23, "--format", form, "--batch-size", 4, "--shard-size", 9, "--output"]
        ending = ".npz" if form == "npz" else ""  # the others are folders
        alone, shared = tmp_path / f"alone_{form}{ending}", tmp_path / f"shared_{form}{ending}"
        called(monkeypatch, "sample", *how, alone)()
        assert several(3, called(monkeypatch, "sample", *how, shared), tmp_path / form) == [shared] * 3
        if form == "npz":
            with np.load(alone) as one, np.load(shared) as other:
                assert all(np.array_equal(one[key], other[key]) for key in ("arr_0", "arr_1"))
            continue
        assert contents(shared) == contents(alone)
        for path in sorted(shared.iterdir())[::2]:
            path.unlink() if path.suffix != ".json" else None
        several(3, called(monkeypatch, "sample", *how, shared), tmp_path / f"again_{form}")
        assert contents(shared) == contents(alone)


@pytest.mark.slow
def test_what_one_process_does_is_refused_in_one_sentence(run, tmp_path, monkeypatch):
    for number, (main, *arguments) in enumerate(
        [
            ("sample", run, "--film"),
            ("sample", tmp_path / "none"),
            ("sample", run, "--images", "--label", 99),
            ("evaluate", tmp_path, "--dataset", "digits"),
        ]
    ):
        ends = several(2, called(monkeypatch, main, *arguments), tmp_path / str(number))
        assert ends[0].startswith("Error: "), ends
        assert ends[1] == ends[0] or ends[1] == 1  # without the store of torchrun, each speaks for itself


@pytest.mark.slow
def test_figures_are_those_of_one_process(run, tmp_path, monkeypatch):
    measures = ["--features", "raw", "--measure", "sliced_wasserstein", "density_coverage", "--samples", 900]
    broken = tmp_path / "broken.pt"  # is told beside the figures of the others
    broken.write_bytes(b"no checkpoint")
    how = [run, broken, *measures, "--output"]
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    called(monkeypatch, "evaluate", *how, alone)()
    ends = several(2, called(monkeypatch, "evaluate", *how, shared), tmp_path / "of")
    assert ends == [shared / "evaluation.html"] * 2
    one, other = (json.loads((folder / "evaluation.json").read_text()) for folder in (alone, shared))
    assert {**one, "date": ""} == {**other, "date": ""}
    assert (alone / "evaluation.html").read_text() == (shared / "evaluation.html").read_text()
