"""Timing of phases, by a clock that a test turns."""

import itertools

import pytest

from ganexp.instruments.timer import Timer


def test_phases_add_up_to_what_they_contain(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr("time.perf_counter", lambda: next(clock) * 0.001)
    timer = Timer()
    with timer.phase("iteration"):
        for _ in range(3):
            with timer.phase("d"):
                pass
    assert timer.read_ms() == pytest.approx({"d": 3.0, "iteration": 7.0})
    assert timer.read_ms() == {}
