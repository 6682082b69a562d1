"""The figure of two equal algorithms that part by rounding."""

import pytest

import draw_rounding

SMALL = ["generator=mlp", "discriminator=mlp", "generator.width=8", "discriminator.width=8", "dataset.image_size=16"]


def test_rounding_alone_parts_two_equal_algorithms():
    figure = draw_rounding.draw(3, SMALL)
    (axes,) = figure.axes
    ends = {line.get_label(): line.get_ydata()[-1] for line in axes.lines}
    assert ends["joint and one_stage, float64"] < 1e-13
    assert 1e-10 < ends["joint and one_stage, float32"] < 1e-4 < ends["joint, two seeds, float32"]


@pytest.mark.slow
def test_the_figure_is_written(tmp_path, monkeypatch):
    whole = draw_rounding.draw
    monkeypatch.setattr(draw_rounding, "draw", lambda: whole(2, SMALL))
    draw_rounding.main(["--output", str(tmp_path / "new" / "rounding.png")])
    assert (tmp_path / "new" / "rounding.png").stat().st_size > 10_000
