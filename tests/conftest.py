"""What holds for every test."""

import atexit
import os
import shutil
import tempfile

import pytest
import torch

os.environ["GANEXP_DATA"] = tempfile.mkdtemp(prefix="ganexp-tests-")
os.environ["GANEXP_CACHE"] = os.environ["GANEXP_DATA"]  # decoded sets go there, not to the user's cache
atexit.register(shutil.rmtree, os.environ["GANEXP_DATA"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)  # fastest for networks this small, and kind to whatever else runs
