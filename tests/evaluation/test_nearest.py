"""Nearest real samples, against NumPy, batch by batch."""

import numpy as np
import torch

from ganexp.evaluation.nearest import nearest


def test_they_are_those_of_a_whole_sort():
    generator = torch.Generator().manual_seed(0)
    samples, reals = (torch.rand(n, 1, 4, 4, generator=generator) for n in (5, 103))
    distances, found = nearest(samples, reals.split(25), lambda batch: batch.flatten(1) ** 2, 7)
    f, g = ((one.flatten(1) ** 2).double().numpy() for one in (samples, reals))
    apart = np.sqrt(((f[:, None] - g) ** 2).sum(-1))
    order = np.argsort(apart, axis=1)[:, :7]
    np.testing.assert_allclose(distances, np.take_along_axis(apart, order, 1), atol=1e-6)
    assert torch.equal(found, reals[torch.from_numpy(order)])


def test_a_copy_is_found_at_no_distance():
    reals = torch.rand(60, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    distances, found = nearest(reals[[41]], reals.split(7), lambda batch: batch.flatten(1), 2)
    assert distances[0, 0] < 1e-6
    assert torch.equal(found[0, 0], reals[41])


def test_all_are_found_where_there_are_fewer():
    distances, found = nearest(torch.zeros(2, 2), [torch.ones(3, 2)], lambda batch: batch, 5)
    assert distances.shape == (2, 3)
    assert found.shape == (2, 3, 2)
