"""Broken loops: each fault is found, at a line of the loop's own file, with a remedy, and nothing else is."""

import contextlib
import inspect
import re

import pytest
import torch
from torch import nn

import ganexp
from ganexp.watching.watched_loop import FAULTS_THAT_HIDE_THE_RULE
from tests.thinned import thinned
from tests.watching.broken import BROKEN


@pytest.mark.parametrize("name", thinned(BROKEN, 3))
def test_the_fault_is_found(name):
    make, kinds, raises, _ = BROKEN[name]
    p, step = make()
    with pytest.raises(RuntimeError) if raises else contextlib.nullcontext(), ganexp.watch(*getattr(p, "given", ())) as report:
        step(), step()
    assert {one.kind for one in report.fault_records} == {*kinds}, report
    assert all(re.match(r"(.*/)?(broken|loops)\.py:\d+: ", one) for one in report.faults)
    if {*kinds} & FAULTS_THAT_HIDE_THE_RULE or raises:
        assert report.rule is None, "a rule is named that the loop does not follow"


@pytest.mark.parametrize("name", thinned(BROKEN, 3))
def test_obeying_the_remedy_gives_the_sound_loop(name):
    make, _, _, sound = BROKEN[name]
    mended, p = begun(make, mended=True)
    right, q = begun(sound)
    with ganexp.watch(*getattr(p, "given", ())) as report:
        mended(), mended()
    assert report.faults == [], report
    torch.manual_seed(1)
    right(), right()
    assert all(map(torch.equal, weights(p), weights(q)))


def begun(make, **kwargs):
    p, step = make(**kwargs)
    torch.manual_seed(1)
    return step, p


def weights(p):
    return [q for one in vars(p).values() if isinstance(one, nn.Module) for q in one.parameters()]


@pytest.mark.parametrize("name", ["three_mixtures", "batch_norm_under_a_penalty"])
def test_mixtures_are_told_at_the_line_of_the_third(name):
    make = BROKEN[name][0]
    lines, first = inspect.getsourcelines(make)
    (offset,) = (number for number, line in enumerate(lines) if "# the third mixture" in line)
    _, step = make()
    with ganexp.watch() as report:
        step(), step()
    (fault,) = report.fault_records
    assert (fault.kind, fault.place.rpartition("/")[2]) == ("mixtures", f"broken.py:{first + offset}")
    assert report.rule == "detach"  # a fault of the network, and not of the rule
