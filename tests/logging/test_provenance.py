"""Where a run comes from, against what other tools say about this machine."""

import os
import subprocess

import pytest
import torch

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
