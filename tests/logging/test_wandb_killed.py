"""W&B when a run is killed or W&B's own process hangs: no row is missing, and nothing waits for ever."""

import json
import signal
import sys
import time

import psutil
import pytest

from tests import processes
from tests.composing import CONF
from tests.logging.records import inspected
from tests.processes import begin

TINY = ["generator.width=4", "discriminator.width=4", "batch_size=4", "latent_dim=3", "average=none", "device=cpu"]


def rows(cwd):
    """Return the whole rows so far: the last line may be half written."""
    whole = [file.read_text().rpartition("\n")[0] for file in cwd.glob("run/metrics.jsonl")]
    return [json.loads(line) for text in whole for line in text.splitlines()]


def service_of(process):
    (found,) = [child for child in psutil.Process(process.pid).children() if child.name() == "wandb-core"]
    return found


@pytest.mark.slow
def test_rows_that_were_on_their_way_to_wandb_are_written_when_the_run_goes_on(tmp_path):
    often = ["log_every=1", "sample_every=7", "checkpoint_every=5", "hydra.run.dir=run"]
    process = begin(*TINY, *often, "logger=[wandb]", "logger.wandb.mode=offline", "iterations=100000", cwd=tmp_path)
    assert process.until(lambda: len(rows(tmp_path)) > 40)
    service = service_of(process)
    service.kill()  # both at once, as when a machine goes down
    process.kill()
    process.ended()
    lost = len(rows(tmp_path))
    (file,) = tmp_path.glob("outputs/wandb/offline-run-*/*.wandb")
    assert len(inspected(file, check=False).get("history", [])) < lost  # else nothing is shown here
    end = max(row["progress/iteration"] for row in rows(tmp_path)) + 5
    process = begin("resume=run", f"iterations={end}", cwd=tmp_path)
    said = process.ended()
    assert process.returncode == 0, said
    items = [
        record["item"]
        for file in sorted(tmp_path.glob("outputs/wandb/offline-run-*/*.wandb"))
        for record in inspected(file, check=False).get("history", [])
    ]
    written = rows(tmp_path)
    assert [item["progress/iteration"] for item in items] == [row["progress/iteration"] for row in written]
    losses = [row["loss/d"] for row in written[1:]]  # the first is from before training
    assert [item["loss/d"] for item in items[1:]] == pytest.approx(losses)
    pictures = [row["progress/iteration"] for row in written if "samples" in row]
    assert [item["progress/iteration"] for item in items if "samples.path" in item] == pictures


HANGING = """
import logging, os, signal, sys, time, psutil
from pathlib import Path
from ganexp.logging import RunDescription, WandbLogger
logging.basicConfig(level=logging.WARNING, format="%(message)s")
logger = WandbLogger(mode="offline", directory=sys.argv[1], timeout_s=0.4)
logger.open(RunDescription(Path(sys.argv[1]), config={}))
logger.write({"progress/iteration": 1, "loss/d": 0.5})
assert logger.flush(10)
(service,) = [child for child in psutil.Process().children() if child.name() == "wandb-core"]
service.suspend()
start = time.monotonic()
slowest = 0
for iteration in range(2, 3000):
    began = time.monotonic()
    logger.write({"progress/iteration": iteration, **{f"key/{i}": 0.5 for i in range(100)}})
    slowest = max(slowest, time.monotonic() - began)
print("slowest", slowest)
logger.close({"state": "finished", "paths": {}})
print("closed", time.monotonic() - start)
again = WandbLogger(mode="offline", directory=sys.argv[1], timeout_s=0.4)
again.open(RunDescription(Path(sys.argv[1]), config={}))
again.write({"progress/iteration": 1, "loss/d": 0.25})
again.close({"state": "finished", "paths": {}})
(service,) = [child for child in psutil.Process().children() if child.name() == "wandb-core"]
service.suspend()
while service.status() != psutil.STATUS_STOPPED:
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_a_wandb_process_that_is_stopped_delays_neither_rows_nor_the_end(tmp_path):
    start = time.monotonic()
    done = processes.run(sys.executable, "-c", HANGING, tmp_path, cwd=CONF.parent)
    assert done.returncode == 0, done.stderr
    said = dict(line.split() for line in done.stdout.splitlines())
    assert float(said["closed"]) < 20
    assert done.stderr.count("W&B has failed (its own process does not answer)") == 1
    assert time.monotonic() - start < 60


@pytest.mark.slow
def test_a_run_whose_wandb_process_is_stopped_listens_to_signals(tmp_path):
    settings = ["log_every=1", "sample_every=50", "checkpoint_every=1000", "hydra.run.dir=run"]
    settings += ["logger=[wandb]", "logger.wandb.mode=offline"]
    process = begin(*TINY, *settings, "iterations=100000", cwd=tmp_path)
    assert process.until(lambda: len(rows(tmp_path)) > 20)
    service_of(process).suspend()
    before = len(rows(tmp_path))
    assert process.until(lambda: len(rows(tmp_path)) > before + 500)
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    said = "".join(process.ended())
    assert time.monotonic() - start < 90
    assert "its own process does not answer" in said
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["state"] == "preempted"
    assert len(rows(tmp_path)) == summary["iteration"] + 1  # one is from before training
