"""Races: whose turn it is, how long a turn lasts, and what is read of it."""

import pytest
import torch

from ganexp import Step, Trainer, strategies
from ganexp.compare.racing import Contender, Times, race, race_for
from tests.tiny import CASES, real_batches, tiny_gan

CPU = torch.device("cpu")


def test_contenders_take_turns_and_each_begins_in_turn():
    order = []
    contenders = {name: Contender(lambda name=name: order.append(name)) for name in "abc"}
    found = race(contenders, turns=3, iterations=1, device=CPU)
    assert "".join(order) == "aabbcc" + "abc" + "bca" + "cab"
    assert all(len(times.times_ms) == 3 for times in found.values())


def test_turns_are_as_long_as_asked(monkeypatch):
    now, calls = [0.0], {"slow": 0, "fast": 0}
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def contender(name, seconds):
        def step():
            calls[name] += 1
            now[0] += seconds

        return Contender(step)

    contenders = {"slow": contender("slow", 0.03), "fast": contender("fast", 0.01)}
    found = race_for(contenders, turns=4, turn_s=0.1, device=CPU)
    assert calls["slow"] == calls["fast"] == 6 + 1 + 2 + 4 * 5  # 0.1 s is five iterations of 0.02 s each on average
    assert found["slow"].median_ms == pytest.approx(30)
    ratio = found["slow"].over(found["fast"])
    assert (ratio.low, ratio.middle, ratio.high) == pytest.approx((3, 3, 3))


def test_ratios_are_taken_within_a_turn():
    mine, theirs = Times([3.0, 4.0, 100.0]), Times([1.0, 4.0, 10.0])
    assert mine.median_ms == theirs.median_ms == 4
    assert mine.over(theirs).middle == 3


def test_phases_are_those_of_the_turn():
    trainer = Trainer(Step(tiny_gan(CASES["hinge"]), strategies.detach), real_batches(), iterations=1)
    found = race({"ours": Contender.of(trainer), "plain": Contender(lambda: None)}, turns=2, iterations=3, device=CPU)
    for took_ms, phases in zip(found["ours"].times_ms, found["ours"].phases_ms, strict=True):
        assert set(phases) == {"iteration", "data", "d", "g"}
        assert phases["d"] + phases["g"] < phases["iteration"] < took_ms
    assert found["plain"].phases_ms == [{}, {}]
    assert trainer.gan.meter.updates["d"] == 2 + 2 * 3
