"""Pictures: the right pixels in the right places."""

import gc

import numpy as np
import torch
from matplotlib.artist import Artist

from ganexp.logging.pictures import beside_each_other, image_grid, scatter, side_by_side, translations


def test_grid_maps_the_unit_range_to_bytes_and_clamps_the_rest():
    levels = torch.tensor([-1.0, 0.0, 1.0, 7.0, -7.0])
    grid = image_grid(levels.view(5, 1, 1, 1).expand(5, 1, 4, 4), columns=5)
    assert grid.dtype == np.uint8
    assert grid.shape == (8, 32, 3)
    assert [grid[4, 4 + 6 * i].tolist() for i in range(5)] == [[0] * 3, [128] * 3, [255] * 3, [255] * 3, [0] * 3]


def test_grid_keeps_colours_and_reading_order():
    red, green = torch.tensor([1.0, -1, -1]), torch.tensor([-1.0, 1, -1])
    images = torch.stack([red, green]).view(2, 3, 1, 1).expand(2, 3, 4, 4)
    grid = image_grid(images, columns=2)
    assert grid[4, 4].tolist() == [255, 0, 0]
    assert grid[4, 10].tolist() == [0, 255, 0]


def test_any_number_of_channels_can_be_shown():
    assert image_grid(torch.zeros(2, 5, 4, 4)).shape[2] == 3


def test_both_images_of_a_stack_are_shown_side_by_side():
    stack = torch.cat([torch.full((2, 3, 4, 4), level) for level in (-1.0, 1.0)], 1)
    assert image_grid(stack)[4, [4, 8, 14, 18], 0].tolist() == [0, 255, 0, 255]


def test_each_input_stands_left_of_its_output():
    inputs = torch.full((2, 1, 4, 4), -1.0)
    grid = side_by_side(inputs, -inputs)
    assert [grid[4, 4 + 6 * i, 0] for i in range(4)] == [0, 255, 0, 255]


def test_both_directions_stand_beside_what_they_are_made_from():
    a, b, of_a, of_b = (torch.full((2, 1, 4, 4), level) for level in (-1.0, -0.5, 0.5, 1.0))
    drawn = translations(torch.cat([a, b], 1), torch.cat([of_b, of_a], 1), two_way=True)
    assert [drawn[4, 4 + 5 * i, 0] for i in range(4)] == [0, 191, 64, 255]


def test_translations_have_captions_where_there_is_room_for_them():
    source, output, target = (torch.full((2, 1, 32, 40), level) for level in (-1.0, 0.0, 1.0))
    drawn, bare = translations(source, output, target), beside_each_other(source, output, target)
    line = drawn[: len(drawn) - len(bare)]
    np.testing.assert_array_equal(drawn[len(line) :], bare)
    dark = [(line[:, left : left + 40] < 128).any() for start in (2, 134) for left in (start, start + 41, start + 82)]
    assert dark == [True] * 6
    narrow = [images[..., :8] for images in (source, output, target)]
    np.testing.assert_array_equal(translations(*narrow), beside_each_other(*narrow))


def test_scatter_draws_generated_points_where_they_are():
    real = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    picture = scatter(real, torch.tensor([[0.5, 0.9]]).expand(50, 2)).astype(int)
    assert picture.shape == (500, 500, 3)
    red = (picture[..., 0] - picture[..., 2]) > 100
    red[:80, 300:] = False  # the legend
    rows, columns = np.nonzero(red)
    assert 0.6 < columns.mean() / 500 < 0.75
    assert 0.1 < rows.mean() / 500 < 0.3


def test_a_picture_of_points_depends_on_nothing_drawn_before_and_leaves_no_figure_behind():
    real, fake = torch.randn(2, 40, 2)
    first = scatter(real, fake)
    for reach in (100, 0.01):
        scatter(reach * real, fake)
        scatter(None, reach * fake)
    assert np.array_equal(scatter(real, fake), first)
    gc.disable()  # a figure is a cycle, which only a collection frees
    try:
        before = sum(issubclass(type(instance), Artist) for instance in gc.get_objects())
        for _ in range(5):
            scatter(real, fake)
        assert sum(issubclass(type(instance), Artist) for instance in gc.get_objects()) <= before
    finally:
        gc.enable()
