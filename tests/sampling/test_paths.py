"""Ways through latent space: the closed form of an arc, against a rotation, and where a walk passes."""

import math

import pytest
import torch

from ganexp.sampling.films import linear, spherical, walk

T = torch.linspace(0, 1, 7, dtype=torch.float64)[:, None]


def test_an_arc_between_unit_vectors_is_a_rotation_at_constant_speed():
    angle = 2.1
    start = torch.tensor([1.0, 0.0], dtype=torch.float64)
    end = torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)
    expected = torch.cat([(angle * T).cos(), (angle * T).sin()], 1)
    torch.testing.assert_close(spherical(start, end, T), expected, rtol=0, atol=1e-12)


def test_an_arc_between_vectors_of_one_length_keeps_it_and_a_chord_does_not():
    start, end = torch.randn(2, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start, end = (8 * one / one.norm() for one in (start, end))
    torch.testing.assert_close(spherical(start, end, T).norm(dim=1), torch.full((7,), 8.0, dtype=torch.float64))
    chord = math.sqrt((128 + 2 * float(start @ end)) / 4)
    assert linear(start, end, T)[3].norm().item() == pytest.approx(chord)


@pytest.mark.parametrize("factor", [1.0, 3.0, -1.0])
def test_parallel_vectors_are_joined_straight(factor):
    start = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    torch.testing.assert_close(spherical(start, factor * start, T), (1 + (factor - 1) * T) * start)


def test_a_walk_passes_its_stops_at_equal_steps():
    stops = torch.randn(4, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for between in (linear, spherical):
        there = walk(stops, 6, between, closed=False)
        back = walk(stops, 6, between, closed=True)
        assert (len(there), len(back)) == (19, 24)
        torch.testing.assert_close(there[::6], stops)
        torch.testing.assert_close(back[::6], stops)
        torch.testing.assert_close(back[:18], there[:18])
        for tile in range(2):  # each walks as it would alone
            torch.testing.assert_close(walk(stops[:, tile], 6, between, closed=True), back[:, tile])
    torch.testing.assert_close(walk(stops, 4, linear, closed=True)[14], (stops[3] + stops[0]) / 2)
