"""Processes that read images: they end with their parent, and leave its signals to it."""

import multiprocessing
import os
import signal
import time

import pytest
import torch

from ganexp.data import Streamed
from tests.data.samples import Items
from tests.processes import joined


class Slow(Items):
    def __getitem__(self, index):
        time.sleep(20)
        return self.data[index]


def train_for_ever(queue):
    feed = Streamed(Slow(torch.zeros(20, 2)), 6, workers=2)
    queue.put([worker.pid for worker in multiprocessing.active_children()])
    next(feed)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_workers_end_with_a_parent_that_is_killed():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    parent = context.Process(target=train_for_ever, args=(queue,))
    parent.start()
    workers = queue.get(timeout=30)
    assert len(workers) == 2
    time.sleep(0.2)  # they are at their first image
    assert all(map(is_running, workers))
    os.kill(parent.pid, signal.SIGKILL)
    joined(parent)
    deadline = time.monotonic() + 10
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, workers))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_to_all_processes_is_left_to_the_run(number):
    """As one to a process group comes to workers: not from their parent."""
    feed = Streamed(Items(torch.zeros(20, 2)), 6, workers=2)
    for _ in range(2):
        next(feed)  # one from each worker: both have started
    workers = multiprocessing.active_children()
    sender = multiprocessing.get_context("fork").Process(target=lambda: [os.kill(worker.pid, number) for worker in workers])
    sender.start()
    joined(sender)
    for _ in range(9):
        next(feed)
    assert all(worker.is_alive() for worker in workers)
    workers[0].terminate()  # this one is from the parent
    workers[0].join(2)
    assert workers[0].exitcode == 0
    feed.close()
