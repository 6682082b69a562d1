"""What is drawn from the batches on their way: counts, and the real points that a picture shows."""

from contextlib import nullcontext

import torch

from ganexp.training.watched import Watched


def watched(*batches):
    return Watched(iter(batches), lambda name: nullcontext())


def test_a_picture_shows_a_thousand_real_points_and_always_the_same():
    batches = torch.randn(50, 32, 2).unbind()
    reals = watched(*(batch.clone() for batch in batches))
    for _ in range(40):
        next(reals).add_(100)  # what becomes of a batch later does not matter
    assert torch.equal(reals.shown(), torch.cat(batches)[:1000])
    list(reals)
    assert torch.equal(reals.shown(), torch.cat(batches)[:1000])
    assert (reals.batches, reals.images) == (50, 1600)


def test_a_picture_shows_the_last_batch_of_images():
    batches = torch.randn(3, 4, 1, 8, 8).unbind()
    reals = watched(*batches)
    list(reals)
    assert torch.equal(reals.shown(), batches[-1])
