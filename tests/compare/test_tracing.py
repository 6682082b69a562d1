"""Traces: what is written down is what the strategies promise of their verbs and graphs."""

import pytest

from ganexp import strategies
from measuring.tracing import traced


def lives(strategy):
    return [(one.letter, one.start, one.end) for one in traced(strategy).passes]


def test_detach_keeps_the_generation_through_ds_update_and_frees_ds_graphs_there():
    assert traced(strategies.detach).trace == ["z", "G", "r", "f", "D+", "r", "f", "G+"]
    assert lives(strategies.detach) == [("G", 1, 7), ("r", 2, 4), ("f", 3, 4), ("r", 5, 5), ("f", 6, 7)]


def test_retain_graph_keeps_ds_graphs_to_the_end():
    assert lives(strategies.retain_graph)[1:3] == [("r", 2, 8), ("f", 3, 8)]


@pytest.mark.parametrize("strategy", [strategies.resample, strategies.reuse_z])
def test_no_graph_is_built_for_a_generation_that_only_d_sees(strategy):
    assert lives(strategy)[0] == ("G", 1, 1)


def test_one_stage_frees_every_graph_with_the_one_update():
    assert traced(strategies.OneStage()).trace == ["z", "G", "r", "f", "DG+"]
    assert lives(strategies.OneStage()) == [("G", 1, 4), ("r", 2, 4), ("f", 3, 4)]


def test_looking_ahead_is_part_of_the_trace():
    assert " ".join(traced(strategies.Extragradient()).trace) == "z G r f (DG+) z G r f DG+"
