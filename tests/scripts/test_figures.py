"""The two figures that are drawn from measurements; what that of graphs shows is tested in tests/compare/test_tracing.py."""

import pytest

import draw

SMALL = ["generator=mlp", "discriminator=mlp", "generator.width=8", "discriminator.width=8", "dataset.image_size=16"]


@pytest.mark.slow
def test_rounding_alone_parts_two_equal_algorithms():
    figure = draw.rounding(3, SMALL)
    (axes,) = figure.axes
    ends = {line.get_label(): line.get_ydata()[-1] for line in axes.lines}
    assert ends["joint and one_stage, float64"] < 1e-13
    assert 1e-10 < ends["joint and one_stage, float32"] < 1e-4 < ends["joint, two seeds, float32"]


def test_every_pass_of_every_strategy_is_drawn():
    figure = draw.graphs()
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(draw.DRAWN)
    detach = figure.axes[2]
    assert [label.get_text() for label in detach.get_xticklabels()] == ["z", "G", "r", "f", "D+", "r", "f", "G+"]
    assert (len(detach.lines), len(detach.patches)) == (5, 4)  # G's look at the real images builds no graph
    for axes in figure.axes:  # a graph that lives as long as its strategy runs has an end that can be seen
        assert max(bar.get_x() + bar.get_width() for bar in axes.patches) < axes.get_xlim()[1] - 0.2


def test_the_figure_of_graphs_is_written(tmp_path):
    draw.main(["graphs", "--output", str(tmp_path / "new" / "graphs.png")])
    assert (tmp_path / "new" / "graphs.png").stat().st_size > 10_000


@pytest.mark.slow
def test_the_figure_of_rounding_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(draw.FIGURES, "rounding", lambda: draw.rounding(2, SMALL))
    draw.main(["rounding", "--output", str(tmp_path / "new" / "rounding.png")])
    assert (tmp_path / "new" / "rounding.png").stat().st_size > 10_000
