"""What becomes of a run when W&B's server is not there, stalls, refuses or dies: every case from start to end."""

import re
import time

import pytest

from tests.logging.records import inspected
from tests.logging.stand_in import serving
from tests.processes import begin
from tests.small_runs import rows

TINY = ["generator.width=4", "discriminator.width=4", "batch_size=4", "log_every=1"]
TINY += ["sample_every=100000", "checkpoint_every=100000"]


def begin_with(url, *arguments, cwd):
    return begin(*TINY, *arguments, cwd=cwd, WANDB_BASE_URL=url, WANDB_API_KEY="a" * 40)


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
    assert [row["loss/d"] for row in rows[1:]] == pytest.approx(
        [item["loss/d"] for item in items[1:]]
    )  # the first has pictures


@pytest.mark.slow
def test_a_server_that_is_well_gets_every_row(tmp_path):
    with serving() as server:
        process = begin_with(server.url, "iterations=5", cwd=tmp_path)
        said, places, rows = end(process, tmp_path)
    assert "offline" not in said
    assert places["W&B"].startswith(server.url)
    assert "upload" not in places
    same(rows, server.rows)


@pytest.mark.slow
@pytest.mark.parametrize("mood", ["absent", "stalls", 401])
def test_a_server_that_does_not_want_a_run_costs_seconds_and_no_row(mood, tmp_path):
    with serving(mood) as server:
        url = "http://127.0.0.1:9" if mood == "absent" else server.url  # nobody listens on the discard port
        start = time.monotonic()
        process = begin_with(url, "iterations=5", cwd=tmp_path)
        process.until(lambda: written(tmp_path))
        began_s = time.monotonic() - start
        said, places, rows = end(process, tmp_path)
    assert "this run is recorded offline" in said
    assert len(rows) == 6  # one is from before training
    assert places["W&B"] == "wandb leet outputs/wandb"
    same(rows, recorded(places, tmp_path))
    assert began_s < 40  # twice what is promised: the machine may be busy
    assert time.monotonic() - start < 60


@pytest.mark.slow
def test_a_server_that_is_lost_during_a_run_stops_nothing(tmp_path):
    with serving() as server:
        process = begin_with(server.url, "iterations=200", cwd=tmp_path)
        process.until(lambda: written(tmp_path))
        server.mood = "dead"
        process.until(lambda: written(tmp_path) == 201)
        trained = time.monotonic()
        _, places, rows = end(process, tmp_path)
        ended_s = time.monotonic() - trained
    assert len(rows) == 201  # one is from before training
    assert len(server.rows) < 201
    same(rows, recorded(places, tmp_path))
    assert ended_s < 60


def test_wandb_dying_does_not_kill_a_run(tmp_path, monkeypatch, caplog):
    import wandb

    from ganexp.logging import RunDescription, WandbLogger

    monkeypatch.setenv("WANDB_MODE", "offline")
    logger = WandbLogger(mode="auto", directory=str(tmp_path))
    logger.open(RunDescription(tmp_path, config={}))

    def broken(*_, **__):
        raise wandb.errors.CommError("the service is gone")

    monkeypatch.setattr(logger.run, "log", broken)
    logger.write({"progress/iteration": 1, "loss/d": 0.5})
    logger.write({"progress/iteration": 2, "loss/d": 0.5})
    logger.close({"state": "finished", "paths": {}})
    assert caplog.text.count("the service is gone") == 1
    monkeypatch.undo()
    logger.run.finish()
