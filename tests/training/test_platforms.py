"""Training where the system lacks what Windows lacks; no other system than Linux runs these tests."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from ganexp.training.callbacks import measures

AS_ON_WINDOWS = """
import enum, signal, sys
import torch  # and what it imports, which knows this system
for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGKILL", "pthread_sigmask", "sigtimedwait", "sigwait"):
    delattr(signal, name)
kept = {number.name: number.value for number in signal.Signals if hasattr(signal, number.name)}
signal.Signals = enum.IntEnum("Signals", kept)
sys.modules["fcntl"] = sys.modules["pwd"] = sys.modules["grp"] = None  # importing them fails
from ganexp.cli.train import main
main()
"""


@pytest.mark.slow
def test_training_needs_no_signal_that_windows_lacks(tmp_path):
    words = ["dataset=ring", "generator=mlp", "discriminator=mlp", "iterations=2", "logger=[]", f"hydra.run.dir={tmp_path}/run"]
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # nor is UTF-8 its encoding
    command, environment = [sys.executable, "-c", AS_ON_WINDOWS, *words], os.environ | ascii_only
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "run" / "checkpoints" / "last.pt").exists()


def test_the_peak_of_memory_is_read_as_windows_tells_it(monkeypatch):
    used = SimpleNamespace(memory_info=lambda: SimpleNamespace(peak_wset=3 * 2**20))
    monkeypatch.setattr(measures, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(measures, "psutil", SimpleNamespace(Process=lambda: used))
    assert measures.peak_memory_mib(torch.device("cpu")) == 3
