"""The figure of graphs; what it draws is tested in tests/compare/test_tracing.py."""

import draw_graphs


def test_every_pass_of_every_strategy_is_drawn(tmp_path):
    figure = draw_graphs.draw()
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(draw_graphs.DRAWN)
    detach = figure.axes[2]
    assert [label.get_text() for label in detach.get_xticklabels()] == ["z", "G", "r", "f", "D+", "r", "f", "G+"]
    assert (len(detach.lines), len(detach.patches)) == (5, 4)  # G's look at the real images builds no graph
    for axes in figure.axes:  # a graph that lives as long as its strategy runs has an end that can be seen
        assert max(bar.get_x() + bar.get_width() for bar in axes.patches) < axes.get_xlim()[1] - 0.2


def test_the_figure_is_written(tmp_path):
    draw_graphs.main(["--output", str(tmp_path / "new" / "graphs.png")])
    assert (tmp_path / "new" / "graphs.png").stat().st_size > 10_000
