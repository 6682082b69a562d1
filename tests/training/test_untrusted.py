"""Checkpoint files from anywhere: truncated, tampered with, foreign or malicious, they are refused with a reason."""

import contextlib
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ganexp import build
from ganexp.config import ConfigError
from ganexp.training import CheckpointError, checkpoint
from tests.composing import composed
from tests.training.test_resume import overrides


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("genuine")
    build(composed(*overrides("detach"), "iterations=3"), folder).fit()
    return (folder / "checkpoints" / "last.pt").read_bytes()


class Evil:
    def __reduce__(self):
        return (Path.touch, (Path("evil"),))


def test_no_code_runs_from_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"format": 1, "config": {}, "generator": Evil()}, tmp_path / "evil.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil()))
    for name, said in {"evil.pt": "would call '.*getattr'", "plain.pt": "cannot be read as a checkpoint"}.items():
        with pytest.raises(CheckpointError, match=said):
            checkpoint.load(tmp_path / name)
    assert not (tmp_path / "evil").exists()


def test_what_is_not_ours_is_refused(tmp_path):
    path = tmp_path / "file.pt"
    with pytest.raises(CheckpointError, match="is not there"):
        checkpoint.load(path)
    for values in ({"state_dict": {}}, [1, 2], torch.zeros(3), {"format": 99, "config": {}}, {"format": 1, "config": 3}):
        torch.save(values, path)
        with pytest.raises(CheckpointError, match="no checkpoint of this version"):
            checkpoint.load(path)
    for content in (b"", b"PK\x03\x04", b"text", bytes(1000)):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
            checkpoint.load(path)
    with pytest.raises(CheckpointError, match="cannot be read as a checkpoint"):
        checkpoint.load(tmp_path)


def test_a_file_that_unpacks_to_far_more_than_its_size_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(50_000_000))
    with pytest.raises(CheckpointError, match="unpacks to far more than its size"):
        checkpoint.load(path)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_loads_as_it_was_or_is_refused(genuine, tmp_path, data):
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
    path = tmp_path / "damaged.pt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"\Aresume: [^\n]*\Z") if not _fits(path) else contextlib.nullcontext():
        assert build(composed(*overrides("detach"), "iterations=4"), checkpoint=path).iteration == 3


def _fits(path):
    """Say whether the damage is to nothing that is read."""
    try:
        build(composed(*overrides("detach"), "iterations=4"), checkpoint=path)
    except ConfigError:
        return False
    return True
