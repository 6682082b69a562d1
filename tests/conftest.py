"""What holds for every test."""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator

import pytest
import torch
import yaml

from tests import processes
from tests.composing import suited

os.environ.setdefault(
    "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
)  # read when cuBLAS is first used: deterministic tests may come later
os.environ["GANEXP_DATA"] = tempfile.mkdtemp(prefix="ganexp-tests-")
os.environ["GANEXP_CACHE"] = os.environ["GANEXP_DATA"]  # decoded sets go there, not to the user's cache
atexit.register(shutil.rmtree, os.environ["GANEXP_DATA"], ignore_errors=True)
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, lambda *_: None)):
    if signal.getsignal(number) == signal.SIG_IGN:  # by nohup, or a shell in whose background pytest runs, for children too
        signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out a strategy with a loss that `suited` replaces: of all pairs there is one with the other loss too."""
    items[:] = [item for item in items if not _is_repeated(getattr(item, "callspec", None))]


def pytest_collection_finish() -> None:
    """Take what collecting has made, which stays to the end, out of every search for garbage and for optimisers."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is marked `gpu` where there is none."""
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a GPU")


def _is_repeated(case: object) -> bool:
    chosen = getattr(case, "params", {})
    strategy, loss = chosen.get("strategy"), chosen.get("loss")
    return isinstance(strategy, str) and isinstance(loss, str) and suited(strategy, loss) != loss


yaml.SafeLoader = yaml.CSafeLoader  # OmegaConf's parser of YAML builds on it: a fifth of the time of composing
torch.set_num_threads(1)  # fastest for networks this small, and kind to whatever else runs


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Leave one thread to what comes next: OpenMP's others do not survive a fork, which would wait for them for ever."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    yield
    processes.end_all()
