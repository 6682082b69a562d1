"""The figure of graphs: what it measures is what the strategies promise of their graphs."""

import draw_graphs


def lives(name):
    trace, passes = draw_graphs.watch(draw_graphs.DRAWN[name])
    return trace, [(one.kind, one.start, one.end) for one in passes]


def test_detach_keeps_the_generation_through_ds_update_and_frees_ds_graphs_there():
    trace, passes = lives("detach")
    assert trace == ["G", "r", "f", "D+", "r", "f", "G+"]
    assert passes == [("G", 0, 6), ("r", 1, 3), ("f", 2, 3), ("r", 4, 4), ("f", 5, 6)]


def test_retain_graph_keeps_ds_graphs_to_the_end():
    _, passes = lives("retain_graph")
    assert passes[1:3] == [("r", 1, 7), ("f", 2, 7)]


def test_resample_builds_no_graph_for_the_first_generation():
    _, passes = lives("resample")
    assert passes[0] == ("G", 0, 0)


def test_every_strategy_can_be_drawn():
    draw_graphs.draw(list(draw_graphs.DRAWN))
