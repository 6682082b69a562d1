"""Checkpoint files from anywhere: truncated, damaged, foreign or with code in them, they are refused with a reason."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ganexp import build
from ganexp.training import CheckpointError, checkpoint
from tests.composing import composed
from tests.small_runs import SMALL


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("genuine")
    build(composed(*SMALL, "iterations=3"), folder).fit()
    return (folder / "checkpoints" / "last.pt").read_bytes()


@pytest.fixture(scope="module")
def trainer():
    return build(composed(*SMALL, "iterations=4"))


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("evil"),))


def test_no_code_runs_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"format": 1, "config": {}, "run": {"generator": Evil()}}, tmp_path / "evil.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil()))
    for name in ("evil.pt", "plain.pt"):
        with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
            checkpoint.load(tmp_path / name)
    assert not (tmp_path / "evil").exists()


def test_what_is_not_ours_is_refused(tmp_path):
    path = tmp_path / "file.pt"
    with pytest.raises(CheckpointError, match="does not exist"):
        checkpoint.load(path)
    for values in (
        {"state_dict": {}},
        [1, 2],
        torch.zeros(3),
        {"format": 99, "config": {}},
        {"format": checkpoint.FORMAT, "config": 3},
        {"format": torch.zeros(3)},
    ):
        torch.save(values, path)
        with pytest.raises(CheckpointError, match="no checkpoint of this version"):
            checkpoint.load(path)
    for content in (b"", b"PK\x03\x04", b"text", bytes(1000)):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
            checkpoint.load(path)
    os.mkfifo(tmp_path / "pipe.pt")
    (tmp_path / "device.pt").symlink_to("/dev/zero")
    for place in (tmp_path, tmp_path / "pipe.pt", tmp_path / "device.pt"):
        with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
            checkpoint.load(place)


@settings(max_examples=round(120 * float(os.environ.get("GANEXP_EXAMPLES", "1"))), deadline=None, derandomize=True)
@given(data=st.data())
def test_a_damaged_file_loads_as_it_was_or_is_refused(genuine, trainer, tmp_path_factory, data):
    """Bytes changed, cut off or put in anywhere end in one sentence, or in a state that then fits or does not."""
    content = bytearray(genuine)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["change", "cut", "insert"]))
        if kind == "change":
            content[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del content[at : at + data.draw(st.integers(1, 5000))]
        else:
            content[at:at] = data.draw(st.binary(min_size=1, max_size=50))
        content = content or bytearray(b"x")
    path = tmp_path_factory.getbasetemp() / "damaged.pt"
    path.write_bytes(content)
    try:
        trainer.load_state_dict(checkpoint.load(path)["run"])
    except CheckpointError as error:
        sentence = str(error)
        assert len(sentence.splitlines()) == 1
    else:
        assert trainer.iteration == 3
