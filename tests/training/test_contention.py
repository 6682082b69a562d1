"""When the log says that idle threads spin: by given numbers, never by a clock."""

import logging
import time

import pytest

from ganexp.training.callbacks import contention
from ganexp.training.callbacks.contention import Contention, Use, spinning
from tests.tiny import tiny_trainer

SPINS = Use(wall_s=20, process_s=6.2, thread_s=3.1, queued_s=33.8)
"""Two threads on two cores that nine other processes want: 6.3 s for an iteration of 0.22 s."""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (SPINS, True),
        (Use(wall_s=20, process_s=22, thread_s=12, queued_s=12), True),  # beside one process
        (Use(wall_s=20, process_s=40, thread_s=20, queued_s=0.2), False),  # a machine to itself
        (Use(wall_s=20, process_s=8.2, thread_s=8.2, queued_s=11.8), False),  # one thread beside nine processes
        (Use(wall_s=20, process_s=4, thread_s=3, queued_s=0.1), False),  # it waits for data
    ],
)
def test_spinning_is_known_by_busy_threads_that_queue_for_cores(use, expected):
    assert spinning(use) is expected


@pytest.mark.parametrize(
    ("chosen", "iterations", "share", "said"),
    [(None, 6, 1, 1), ("passive", 6, 1, 0), ("active", 6, 1, 0), (None, 1, 0.25, 0)],
    ids=["once", "chosen", "chosen otherwise", "too short a time"],
)
def test_it_is_said_once_unless_the_user_has_chosen_or_the_time_is_short(chosen, iterations, share, said, monkeypatch, caplog):
    for name in contention.CHOSEN:
        monkeypatch.delenv(name, raising=False)
    if chosen:
        monkeypatch.setenv("OMP_WAIT_POLICY", chosen)
    uses = (Use(*(number * i * share for number in SPINS)) for i in range(100))
    monkeypatch.setattr(contention, "used", lambda: next(uses))
    made = tiny_trainer(iterations=iterations)
    made.callbacks = [Contention(1)]
    with caplog.at_level(logging.WARNING):
        made.fit()
    assert caplog.text.count("OMP_WAIT_POLICY=passive") == said
    assert made.last_row == {}


def test_what_is_used_is_counted_by_the_machine():
    before = contention.used()
    sum(range(1_000_000))
    after = contention.used()
    assert all(later >= earlier for later, earlier in zip(after, before, strict=True))
    assert after.thread_s > before.thread_s
    for clock, read in ((time.perf_counter, "wall_s"), (time.process_time, "process_s"), (time.thread_time, "thread_s")):
        assert clock() <= getattr(contention.used(), read) <= clock()
