"""Modes counted on sets made by hand."""

import math

import pytest
import torch

from ganexp.data import Grid, Ring
from ganexp.data.modes import Classes
from ganexp.evaluation import Evaluator, PerChannel, Raw
from tests.composing import measures


def counted(data, *sets):
    samples = torch.cat(sets)
    return Evaluator(measures("modes"), Raw((2,)), samples=len(samples), modes=data.modes)(samples.split(7))


def test_every_mode_evenly():
    ring = Ring()
    assert counted(ring, ring.centers.repeat(5, 1)) == {
        "eval/modes": 8,
        "eval/high_quality": 1,
        "eval/mode_kl": pytest.approx(0, abs=1e-12),
    }


def test_some_modes_unevenly():
    """Three of one mode, one of another, four far away: KL = ln 8 − H(¾, ¼)."""
    c = Ring().centers
    found = counted(Ring(), c[:1].repeat(3, 1), c[5:6], torch.full((4, 2), 9.0))
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found == {"eval/modes": 2, "eval/high_quality": 0.5, "eval/mode_kl": pytest.approx(math.log(8) - entropy)}


def test_three_standard_deviations_are_the_border():
    c = Ring(std=0.01).centers
    found = counted(Ring(), c + torch.tensor([0.0299, 0]), c + torch.tensor([0, 0.0301]))
    assert (found["eval/modes"], found["eval/high_quality"]) == (8, 0.5)


def test_nothing_of_high_quality_is_as_bad_as_one_mode():
    assert counted(Grid(), torch.full((5, 2), 99.0)) == {
        "eval/modes": 0,
        "eval/high_quality": 0,
        "eval/mode_kl": pytest.approx(math.log(25)),
    }


def test_real_points_have_the_share_of_a_gaussian_in_the_plane():
    found = counted(Grid(), Grid(n=20_000).load())
    assert found["eval/modes"] == 25
    assert found["eval/high_quality"] == pytest.approx(1 - math.exp(-4.5), abs=0.003)
    assert found["eval/mode_kl"] < 0.002


@pytest.mark.parametrize("data", [Ring(n=5000, radius=1000.0), Grid(n=5000, side=100)])
def test_so_have_points_far_from_the_origin(data):
    x = data.load()
    distances = (x.double()[:, None] - data.centers.double()).norm(dim=2).min(1).values
    share = float((distances < 3 * data.std).double().mean())
    assert counted(data, x)["eval/high_quality"] == pytest.approx(share, abs=1e-3)


class Brightness:
    """Ten classes by mean brightness, from −1 to 1."""

    name, checksum, size, classes = "brightness", "0", 1, 10

    def __call__(self, samples):
        mean = samples.flatten(1).mean(1, keepdim=True)
        return mean, -(mean - torch.linspace(-1, 1, 10)).square()


def test_a_stack_of_three_digits_is_one_of_a_thousand_modes():
    digits = torch.tensor([[1, 2, 3], [1, 2, 3], [9, 0, 7]])
    images = torch.linspace(-1, 1, 10)[digits][:, :, None, None].expand(-1, -1, 4, 4)
    features = PerChannel(Brightness())
    values, logits = features(images)
    assert (features.size, features.classes, values.shape, logits.shape) == (3, 1000, (3, 3), (3, 1000))
    assert logits.argmax(1).tolist() == [123, 123, 907]
    found = Evaluator(measures("modes"), features, samples=3, modes=Classes(1000))([images])
    expected = math.log(1000) - (-(2 / 3) * math.log(2 / 3) - math.log(1 / 3) / 3)
    assert found == {"eval/modes": 2, "eval/high_quality": 1, "eval/mode_kl": pytest.approx(expected)}
