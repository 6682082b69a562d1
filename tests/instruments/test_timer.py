"""Timing of phases, by a clock that a test turns."""

import itertools

import pytest

from ganexp.instruments.timer import CudaTimer, Timer


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


def test_events_of_a_gpu_are_read_and_then_recorded_again(monkeypatch):
    clock, made = itertools.count(), []

    class Event:
        def __init__(self, enable_timing):
            made.append(self)

        def record(self, stream):
            self.at = next(clock)

        def query(self):
            return True

        def elapsed_time(self, end):
            return end.at - self.at

    monkeypatch.setattr("torch.cuda.Event", Event)
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    monkeypatch.setattr("torch.cuda.current_stream", lambda: "the stream")
    timer = CudaTimer()
    for _ in range(2):
        with timer.phase("iteration"), timer.phase("d"):
            pass
        assert timer.read_ms() == {"d": 1.0, "iteration": 3.0}
    assert len(made) == 4
