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
