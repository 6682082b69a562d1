"""How samples are judged: by modes in closed form, by a classifier that knows its data."""

import math

import pytest
import torch

from experiments import quality
from ganexp.data import Grid, Ring


def test_a_perfect_mixture_is_at_no_distance():
    ring = Ring()
    judge = quality.Mixture(ring)
    perfect = judge(ring.centers.repeat(10, 1))
    assert perfect == {"total variation": pytest.approx(0, abs=1e-12), "modes": 8, "high_quality": 1}
    collapsed = judge(ring.centers[:1].repeat(80, 1))
    assert collapsed == {"total variation": pytest.approx(7 / 8), "modes": 1, "high_quality": 1}
    lost = judge(torch.full((80, 2), 9.0))
    assert lost == {"total variation": pytest.approx(1), "modes": 0, "high_quality": 0}
    half = judge(torch.cat([ring.centers, ring.centers + 0.2]))
    assert half == {"total variation": pytest.approx(0.5), "modes": 8, "high_quality": 0.5}
    assert quality.Mixture(Grid())(Grid().load()[:2500])["high_quality"] == pytest.approx(1 - math.exp(-4.5), abs=0.01)


@pytest.mark.slow
def test_the_classifier_knows_digits_and_its_distance_knows_noise():
    data = quality.labelled_digits(16)
    judge = quality.FrechetDistance(data)
    classifier = quality.trained_classifier(data)
    with torch.no_grad():
        right = (classifier.head(classifier(data.images)).argmax(1) == data.labels).double().mean()
    assert right > 0.97
    name = judge.name
    real = judge(data.images)[name]
    shifted = judge(data.images.roll(2, 3))[name]
    noise = judge(torch.rand_like(data.images) * 2 - 1)[name]
    assert real == pytest.approx(0, abs=1e-3)
    assert 10 < shifted < noise
