"""What goes wrong around a run, as a person meets it: each ends in a sentence, and what was written is kept."""

import errno
import json
import multiprocessing
import re
import resource
import time

import psutil
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision import datasets

from ganexp import build
from ganexp.cli.failures import meaning
from ganexp.data import DecodingError, ReadingError
from ganexp.data.vision import MNIST
from ganexp.data.workers import loader
from ganexp.facts import UserError
from ganexp.logging.layout import RunFolder
from ganexp.training import checkpoint
from tests import forked
from tests.composing import composed
from tests.full import on_a_full_disk
from tests.processes import begin, joined, train
from tests.small_runs import SMALL

BROKEN = getattr(torch, "AcceleratorError", RuntimeError)
"""The class of a GPU's own failures, which torch has since 2.8."""


def test_a_run_that_auto_would_begin_is_refused_before_it_has_a_folder(tmp_path):
    done = forked.train(*SMALL, "resume=auto", "init_from=nowhere", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Error: init_from: " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_failure_that_is_not_a_bug_is_one_sentence_with_its_remedy(tmp_path):
    said = {
        "Tried to allocate 9.00 GiB. GPU 0 has …): lower batch_size": torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has …"
        ),
        "you tried to allocate 9 bytes): lower batch_size": RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
        ),
        "Out of memory (MemoryError): lower batch_size": MemoryError(),
        "lower workers": RuntimeError("DataLoader worker (pid(s) 17) exited unexpectedly"),
        "for lack of memory: lower workers": RuntimeError("DataLoader worker (pid 17) is killed by signal: Killed."),
        "make room": OSError(errno.ENOSPC, "No space left on device"),
        "The GPU has failed (CUDA error: an illegal memory access was encountered)": BROKEN(
            "CUDA error: an illegal memory access was encountered\nmore"
        ),
        "The GPU has failed (CUDA error: CUBLAS_STATUS_EXECUTION_FAILED": RuntimeError(
            "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling x"
        ),
        "/a/b.png cannot be read (x): start it again": ReadingError("/a/b.png cannot be read (x)"),
        "/a/bbb: File name too long; name another": OSError(errno.ENAMETOOLONG, "File name too long", "/a/bbb"),
        "/a/b.png cannot be decoded as an image (x): remove": DecodingError("/a/b.png cannot be decoded as an image (x)"),
    }
    for part, error in said.items():
        assert part in meaning(error)
        assert len(meaning(error).splitlines()) == 1
    assert meaning(RuntimeError("a bug")) is None
    interrupted = (OSError(errno.ENOSPC, "x"), BROKEN("CUDA error: x"), RuntimeError("DataLoader worker (pid 1) x"))
    for error in interrupted:
        assert "begin again, since there is no checkpoint yet" in meaning(error, tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.pt").touch()
    for error in interrupted:
        assert f"continue with resume={tmp_path}" in meaning(error, tmp_path)
    assert meaning(OSError(errno.ENOENT, "no such file")) is None


class Undecodable(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise DecodingError("/a/b.png cannot be decoded as an image (x)")


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_is_named_alike_in_this_process_and_in_a_worker(workers):
    with pytest.raises(DecodingError, match=r"\A/a/b\.png cannot be decoded as an image \(x\)\Z"):
        next(iter(loader(Undecodable(), workers, torch.Generator())))


def limited(folder, caplog):
    settings = [*SMALL, "log_every=1", "sample_every=4", "checkpoint_every=2", "iterations=9"]
    made = build(composed(*settings), folder)
    # pictures that fit before training, and that do not fit later
    Image.fromarray = lambda image: Image.effect_noise((400, 400) if made.iteration else (9, 9), 99)
    with pytest.raises(OSError, match="File too large") as told:
        made.fit()
    assert "make room" in meaning(told.value)
    assert "No checkpoint at iteration 2" in caplog.text


def test_a_disk_that_is_full_leaves_nothing_half_written(tmp_path, caplog):
    """A checkpoint of 20 kB does not fit, which stops nothing; a picture does not either, which ends the run in order."""
    assert on_a_full_disk(limited, tmp_path, caplog, room=6000) == "None"
    assert json.loads((tmp_path / "summary.json").read_text())["state"] == "failed"
    assert (tmp_path / "metrics.jsonl").read_text().endswith("}\n")
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    record = {"metrics.jsonl", "summary.json", "config.json", "provenance.json", "measures.json", ".lock"}
    assert left == record | {"real.png", "samples_0000000.png"}


def full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full_when_a_run_or_a_sweep_begins_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("ganexp.cli.folders.write_text", full)
    done = forked.train(*SMALL, cwd=tmp_path)
    assert re.fullmatch(r"Error: outputs/\S+ cannot be written \(.*No space left on device\): make room, or .*\n", done.stderr)
    monkeypatch.setattr("ganexp.cli.sweeping.record.write_document", full)
    done = forked.train("-m", *SMALL, "seed=0,1", cwd=tmp_path)
    assert re.fullmatch(r"Error: The sweep cannot be recorded \(.*No space left on device\): make room, or .*\n", done.stderr)


DYING = """
import os
import signal
from ganexp.losses import Hinge as Loss

if os.environ.get("GANEXP_SWEEP", str(os.getpid())) != str(os.getpid()):
    signal.raise_signal(signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_worker_of_a_sweep_that_dies_is_one_sentence(tmp_path, monkeypatch):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    (tmp_path / "mine.py").write_text(DYING)
    sweep = ["hydra/launcher=parallel", "hydra.launcher.n_jobs=2", "seed=0,1", "loss._target_=mine.Loss"]
    done = train("-m", *SMALL, *sweep, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert re.search(
        r"\AError: a process that runs jobs has died, .*: lower hydra\S+ .* sweep\.resume=outputs/\S+\.$", done.stderr
    )


@pytest.mark.slow
def test_jobs_side_by_side_end_with_the_process_that_started_them(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    sweep = ["hydra/launcher=parallel", "hydra.launcher.n_jobs=2", "seed=0,1", f"hydra.sweep.dir={tmp_path}/sweep"]
    process = begin("-m", *SMALL, "iterations=100_000_000", "checkpoint_every=0", *sweep, cwd=tmp_path)
    assert process.until(lambda: len([*tmp_path.glob("sweep/*/metrics.jsonl")]) == 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert not alive
    assert [json.loads(path.read_text())["state"] for path in tmp_path.glob("sweep/*/summary.json")] == ["preempted"] * 2


def test_a_checkpoint_that_does_not_fit_on_the_disk_stops_nothing(tmp_path):
    process = multiprocessing.get_context("fork").Process(target=outgrown, args=(tmp_path,))
    process.start()
    assert joined(process) == [0]
    assert json.loads((tmp_path / "summary.json").read_text())["state"] == "finished"
    assert checkpoint.load(tmp_path / "checkpoints" / "last.pt")["run"]["iteration"] == 3
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["iteration_000000003.pt", "last.pt"]


def outgrown(folder):
    made = build(composed(*SMALL, "sample_every=0", "iterations=9"), folder)
    tick = made.loggers[0].tick

    def fills():
        tick()
        if made.iteration == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    made.loggers[0].tick = fills
    made.fit()


def test_a_second_process_is_refused_a_run_folder(tmp_path):
    first = build(composed(*SMALL, "iterations=4"), tmp_path)
    for path in RunFolder(tmp_path).results:  # as if it were just beginning
        path.unlink() if path.is_file() else None
    with pytest.raises(UserError, match="another process is training in"):
        build(composed(*SMALL, "iterations=4"), tmp_path)
    first.fit()


def slow_download(root, told):
    source = datasets.MNIST

    class Slow(source):
        def __init__(self, root, train, download=False):
            marker = root / "there"
            if not download and not marker.exists():
                raise RuntimeError("Dataset not found.")
            if not marker.exists():
                told.put("begins")
                time.sleep(0.3)
                marker.touch()
                told.put("ends")
            self.data = torch.zeros(3, 28, 28, dtype=torch.uint8)

    Slow.__name__ = "MNIST"
    MNIST.source = Slow
    assert MNIST(str(root)).load().shape == (3, 1, 32, 32)


def test_two_processes_do_not_download_one_data_set_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    processes = [context.Process(target=slow_download, args=(tmp_path / "sets", told)) for _ in range(3)]
    for process in processes:
        process.start()
    assert joined(*processes) == [0, 0, 0]
    assert [told.get(timeout=5) for _ in range(2)] == ["begins", "ends"]
    assert told.empty()
