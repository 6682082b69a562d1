"""What becomes of a run when W&B's server is not there, stalls, refuses or dies: every case from start to end."""

import re
import signal
import time

import psutil
import pytest

from ganexp import build
from ganexp.logging import RunDescription, WandbLogger
from ganexp.training import checkpoint
from tests.composing import composed
from tests.logging.records import inspected
from tests.logging.stand_in import serving
from tests.processes import begin, train
from tests.small_runs import assert_same, rows

TINY = ["generator.width=4", "discriminator.width=4", "batch_size=4", "log_every=1"]
TINY += ["sample_every=100000", "checkpoint_every=100000"]


def begin_with(url, *arguments, cwd):
    return begin(*TINY, *arguments, cwd=cwd, WANDB_BASE_URL=url, WANDB_API_KEY="a" * 40)


def service_of(process):
    """Return W&B's own process."""
    (service,) = [child for child in psutil.Process(process.pid).children() if child.name() == "wandb-core"]
    return service


def end(process, cwd):
    """Return what was said, the lines of the epilogue by name, and the rows on disk."""
    out, err = process.ended()
    assert process.returncode == 0, err
    assert "Traceback" not in out + err
    places = dict(line.split(None, 1) for line in out.splitlines() if line.startswith("  "))
    (file,) = cwd.glob("outputs/*_seed0")
    return out + err, places, rows(file)


def written(cwd):
    """Return how many rows are on disk so far."""
    return sum(file.read_text().count("\n") for file in cwd.glob("outputs/*_seed0/metrics.jsonl"))


def recorded(places, cwd):
    """Return the rows of W&B's own record, whose folder the line on uploading names."""
    folder = re.fullmatch(r"wandb sync --include-online (\S+)", places["upload"])[1]
    (log,) = (cwd / folder).glob("*.wandb")
    return [record["item"] for record in inspected(log).get("history", [])]


def same(rows, items):
    assert [row["progress/iteration"] for row in rows] == [item["progress/iteration"] for item in items]
    losses = [item["loss/d"] for item in items[1:]]  # the first row is from before training
    assert [row["loss/d"] for row in rows[1:]] == pytest.approx(losses)


@pytest.mark.slow
def test_a_server_that_is_well_gets_every_row_and_a_checkpoint_from_which_another_machine_goes_on(tmp_path):
    settings = ["latent_dim=3", "device=cpu", "logger.wandb.artifacts=last"]
    with serving() as server:
        process = begin_with(server.url, *settings, "iterations=3", cwd=tmp_path)
        output, places, rows = end(process, tmp_path)
    assert "offline" not in output
    assert places["W&B"].startswith(server.url)
    assert "upload" not in places
    same(rows, server.rows)
    (version,) = server.artifacts.versions
    assert version["committed"]
    assert {*version["aliases"]} == {"last", "latest"}
    server.artifacts.lay_out(0, tmp_path / "got")
    done = train("resume=got", "logger.wandb.mode=disabled", "iterations=7", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole = build(composed(*TINY, *settings[:2], "logger=[]", "iterations=7"), tmp_path / "whole")
    whole.fit()
    assert_same(checkpoint.load(tmp_path / "got" / "checkpoints" / "last.pt")["run"]["gan"], whole.gan.state_dict())


@pytest.mark.slow
@pytest.mark.parametrize("mood", ["absent", "stalls", 401])
def test_a_server_that_does_not_want_a_run_costs_seconds_and_no_row(mood, tmp_path):
    with serving(mood) as server:
        url = "http://127.0.0.1:9" if mood == "absent" else server.url  # nobody listens on the discard port
        start = time.monotonic()
        process = begin_with(url, "iterations=5", cwd=tmp_path)
        process.until(lambda: written(tmp_path))
        began_s = time.monotonic() - start
        output, places, rows = end(process, tmp_path)
    assert "this run is recorded offline" in output
    assert len(rows) == 6  # one is from before training
    assert places["W&B"] == "wandb leet outputs/wandb"
    same(rows, recorded(places, tmp_path))
    assert began_s < 40  # twice what is promised: the machine may be busy
    assert time.monotonic() - start < 60


@pytest.mark.slow
@pytest.mark.parametrize("mood", ["dead", 401])
def test_a_server_that_is_lost_during_a_run_stops_nothing(mood, tmp_path):
    with serving() as server:
        process = begin_with(server.url, "iterations=200", "logger.wandb.artifacts=last", cwd=tmp_path)
        process.until(lambda: written(tmp_path))
        server.mood = mood
        process.until(lambda: written(tmp_path) == 201)
        trained = time.monotonic()
        _, places, rows = end(process, tmp_path)
        ended_s = time.monotonic() - trained
    assert len(rows) == 201  # one is from before training
    assert len(server.rows) < 201
    same(rows, recorded(places, tmp_path))
    assert ended_s < 75  # a minute, and what a busy machine adds


@pytest.mark.slow
def test_whoever_presses_ctrl_c_again_does_not_wait_for_a_server(tmp_path):
    with serving() as server:
        process = begin_with(server.url, "iterations=100000", "logger.wandb.artifacts=last", cwd=tmp_path)
        process.until(lambda: written(tmp_path))
        server.mood = "stalls"
        process.send_signal(signal.SIGINT)
        process.until(lambda: "Stopped at iteration" in process.said()[0])
        time.sleep(2)  # W&B is waiting now
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.ended()
    assert time.monotonic() - start < 15
    assert process.returncode == 130
    assert "  upload     wandb sync --include-online" in out
    assert "Traceback" not in out + err


@pytest.mark.slow
def test_wandb_core_being_killed_costs_a_sweep_no_row_and_no_traceback(tmp_path):
    asked = ["seed=0,1", "iterations=100", "logger.wandb.mode=offline", "hydra.sweep.dir=sweep"]
    process = begin("-m", *TINY, *asked, cwd=tmp_path)
    assert process.until(lambda: any("\n" in file.read_text() for file in tmp_path.glob("sweep/0*/metrics.jsonl")))
    service_of(process).kill()
    out, err = process.ended()
    assert process.returncode == 0, err
    assert "Traceback" not in out + err
    assert (out + err).count("W&B has failed") == 1
    first, second = [rows(folder) for folder in sorted(tmp_path.glob("sweep/?_*/"))]
    assert len(first) == len(second) == 101
    *_, log = sorted(tmp_path.glob("outputs/wandb/offline-run-*/*.wandb"), key=lambda log: log.stat().st_mtime)
    same(second, [record["item"] for record in inspected(log)["history"]])


@pytest.mark.slow
def test_wandb_core_hanging_holds_up_neither_training_nor_the_end(tmp_path):
    process = begin(*TINY, "iterations=2000", "logger.wandb.mode=offline", "+logger.wandb.timeout_s=2", cwd=tmp_path)
    assert process.until(lambda: written(tmp_path) > 1)
    service = service_of(process)
    service.suspend()
    try:
        assert process.until(lambda: written(tmp_path) == 2001)
        start = time.monotonic()
        output, _, rows = end(process, tmp_path)
    finally:
        service.kill()
    assert time.monotonic() - start < 40  # 12 s in W&B's process, 2 s for letting go of it, and what a busy machine adds
    assert len(rows) == 2001
    assert output.count("W&B has failed") == 1


def test_wandb_failing_does_not_end_a_run(tmp_path, no_account, monkeypatch, caplog):
    logger = WandbLogger(mode="offline", directory=str(tmp_path))
    logger.open(RunDescription(tmp_path))

    def broken(*_, **__):
        raise ConnectionResetError("Connection lost")  # as when wandb-core has died

    monkeypatch.setattr(logger.run, "log", broken)
    for iteration in range(3):
        logger.write({"progress/iteration": iteration, "loss/d": 0.5})
    logger.close({"state": "finished", "paths": {}})
    assert caplog.text.count("Connection lost") == 1
