"""Verdicts: how they follow from intervals, and how several become one."""

import pytest

from experiments import finding
from experiments.finding import Verdict
from ganexp.compare.intervals import Interval

C, R, U = Verdict.CONFIRMED, Verdict.REFUTED, Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("interval", "verdict"), [(Interval(1.1, 2, 3), C), (Interval(0.5, 0.7, 0.9), R), (Interval(0.9, 1.1, 1.2), U)]
)
def test_at_least(interval, verdict):
    assert finding.at_least(1.0, interval) is verdict


def test_a_claimed_factor_is_met_nearer_to_it_than_to_none():
    assert finding.about(8, Interval(3, 4, 5)) is C
    assert finding.about(8, Interval(1, 1.1, 2.7)) is R
    assert finding.about(8, Interval(2.5, 3, 3.5)) is U


def test_verdicts_are_joined():
    assert finding.together({("a", "x"): C, ("b", "y"): C}) == (C, "Confirmed in every case")
    mixed = finding.together({("a", "x"): C, ("a", "y"): C, ("b", "x"): C, ("b", "y"): R})
    assert mixed == (Verdict.DEPENDS, "Confirmed: a; b (x). Refuted: b (y)")
