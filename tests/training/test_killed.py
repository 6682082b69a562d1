"""Processes that are killed, at any moment, and asked to stop, in any way."""

import json
import multiprocessing
import os
import random
import re
import signal
import time
import warnings

import pytest
from tqdm import tqdm

from ganexp import build
from ganexp.logging import Logger
from ganexp.training import Stopping, checkpoint
from tests.composing import composed
from tests.processes import begin, joined
from tests.small_runs import SMALL, assert_same, state
from tests.small_runs import untimed as rows

ITERATIONS = 200
OFTEN = [*SMALL, "strategy=one_stage", "log_every=10", "sample_every=1000", "checkpoint_every=2", f"iterations={ITERATIONS}"]


def train_from_wherever(folder):
    last = folder / "checkpoints" / "last.pt"
    if not last.exists():
        (folder / "metrics.jsonl").unlink(missing_ok=True)
    build(composed(*OFTEN), folder, checkpoint=last if last.exists() else None).fit()


def test_a_killed_child_holds_no_lock_of_progress_bars():
    reading, writing = os.pipe()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # threads of xdist do not come along
        child = os.fork()
    if child == 0:
        tqdm.get_lock().acquire()
        os.write(writing, b"held")
        time.sleep(60)
        os._exit(0)
    assert os.read(reading, 4) == b"held"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert tqdm.get_lock().acquire(timeout=10)
    tqdm.get_lock().release()


@pytest.mark.slow
def test_a_dozen_kills_change_nothing(tmp_path):
    """A process killed every few milliseconds, checkpoints being written most of the time, gets to the same end."""
    whole = build(composed(*OFTEN), tmp_path / "whole")
    whole.fit()
    folder, moment = tmp_path / "killed", random.Random(0)
    context = multiprocessing.get_context("fork")
    kills, tries = 0, 0
    while kills < 12:
        process = context.Process(target=train_from_wherever, args=(folder,))
        process.start()
        before = {path.name for path in folder.glob("checkpoints/*")}
        deadline = time.monotonic() + 30
        while (
            {path.name for path in folder.glob("checkpoints/*")} == before
            and process.is_alive()
            and time.monotonic() < deadline
        ):
            time.sleep(0.001)  # until it is at work
        time.sleep(moment.uniform(0, 0.03))
        process.kill()
        joined(process)
        kills, tries = kills + (process.exitcode == -signal.SIGKILL), tries + 1
        assert tries < 24, "it ends before it can be killed: more iterations are needed"
        if (folder / "checkpoints" / "last.pt").exists():
            checkpoint.load(folder / "checkpoints" / "last.pt")  # whole at any moment
    last = folder / "checkpoints" / "last.pt"
    assert checkpoint.load(last)["run"]["iteration"] < ITERATIONS
    resumed = build(composed(*OFTEN), folder, checkpoint=last)
    resumed.fit()
    assert_same(state(resumed), state(whole))
    assert rows(folder) == rows(tmp_path / "whole")


TINY = ["generator.width=4", "discriminator.width=4", "dataset.image_size=16", "log_every=5", "device=cpu", "iterations=100000"]


@pytest.mark.slow
def test_a_signal_to_the_whole_group_ends_a_run_in_order_and_it_goes_on_from_there(tmp_path):
    typed = [*TINY, "feed=streamed", "workers=2", "logger=[wandb]", "logger.wandb.mode=offline"]
    process = begin(*typed, cwd=tmp_path)
    assert process.until(
        lambda: sum(file.read_text().count("\n") for file in tmp_path.glob("outputs/*_seed0/metrics.jsonl")) > 2
    )
    os.killpg(process.pid, signal.SIGTERM)
    out, err = process.ended()
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "Traceback" not in err
    (folder,) = tmp_path.glob("outputs/*_seed0")
    assert "Stopped by SIGTERM; to resume: python" in out
    assert f"resume=outputs/{folder.name}" in out
    assert "Stopped by SIGTERM; to resume: python" in (folder / "train.log").read_text()
    summary = json.loads((folder / "summary.json").read_text())
    kept = checkpoint.load(folder / "checkpoints" / "last.pt")
    assert summary["state"] == "preempted"
    assert kept["run"]["iteration"] == summary["iteration"] < 100_000

    more = kept["run"]["iteration"] + 20
    process = begin(*typed, "resume=auto", f"iterations={more}", cwd=tmp_path)
    out, err = process.ended()
    assert process.returncode == 0, err
    iterations = [row["progress/iteration"] for row in rows(folder)]
    assert iterations == sorted(set(iterations))
    assert set(range(5, more, 5)) <= set(iterations)
    assert iterations[-1] == more
    assert len(list(tmp_path.glob("outputs/*_seed0"))) == 1
    ids = {re.search(r"-(\w+)$", path.name)[1] for path in tmp_path.glob("outputs/wandb/offline-run-*")}
    assert len(ids) == 1  # one W&B run, in two records


@pytest.mark.slow
def test_a_second_ctrl_c_stops_at_once(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time\n\ndef slow(gan, reals, *, d_steps, g_steps):\n    if gan.prior.device.type == 'meta':\n"
        "        return  # which is the check before training\n    print('begun', flush=True)\n    time.sleep(60)\n"
    )
    process = begin(*TINY, "strategy._target_=slow.slow", cwd=tmp_path, PYTHONPATH=str(tmp_path), WANDB_MODE="disabled")
    assert process.until(lambda: "begun\n" in process.said()[0])
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.ended(30)
    assert process.returncode == 130
    assert time.monotonic() - start < 20
    assert "Interrupted; what was written is kept." in err
    assert "Traceback" not in err


class Late(Logger):
    """Takes its time to finish, as W&B may, and is sent a signal meanwhile."""

    def close(self, state):
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_while_a_finished_run_is_finishing_changes_nothing(tmp_path):
    with Stopping() as stopping:
        trainer = build(composed(*OFTEN, "iterations=4"), tmp_path, stopping=stopping)
        trainer.loggers = [*trainer.loggers, Late()]
        summary = trainer.fit()
    assert stopping.received == signal.SIGTERM
    assert summary["state"] == "finished"


def test_signals_that_others_handle_are_left_to_them():
    received = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Stopping() as outer, Stopping() as inner:
            for number in (signal.SIGUSR1, signal.SIGHUP):
                os.kill(os.getpid(), number)
            assert inner.received is None
            os.kill(os.getpid(), signal.SIGTERM)
            assert (inner.received, outer.received) == (signal.SIGTERM, None)
        assert received == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)
        signal.signal(signal.SIGHUP, ignored)
