"""Where a run comes from, against what other tools say about this machine."""

import os
import subprocess

import pytest
import torch

from ganexp.logging import provenance as module
from ganexp.logging.provenance import provenance


def test_the_hardware_is_what_the_machine_says_it_is():
    hardware = provenance()["hardware"]
    assert hardware["cores"] == int(
        subprocess.run(["nproc"], env={"PATH": os.environ["PATH"]}, capture_output=True, timeout=60).stdout
    )
    listed = subprocess.run(["lscpu"], env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, timeout=60).stdout
    models = [line.partition(":")[2].strip() for line in listed.splitlines() if line.startswith("Model name")]
    assert hardware["cpu"] in models
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert hardware["memory_gib"] == pytest.approx(total / 2**30, abs=0.1)
    assert len(hardware["gpus"]) == torch.cuda.device_count()


def test_only_the_repository_that_tracks_the_source_has_its_commit(tmp_path, monkeypatch):
    def git(*command):
        identity = ("-c", "user.name=x", "-c", "user.email=x@x")
        return subprocess.run(["git", *identity, *command], cwd=tmp_path, capture_output=True, check=True, timeout=60).stdout

    source = tmp_path / "site-packages" / "source.py"
    source.parent.mkdir()
    source.touch()
    monkeypatch.setattr(module, "__file__", str(source))
    git("init")
    git("commit", "--allow-empty", "-m", "something else")
    assert provenance()["git"] is None
    git("add", ".")
    git("commit", "-m", "the source")
    assert provenance()["git"] == {"commit": git("rev-parse", "HEAD").decode().strip(), "dirty": False}
