"""A sample is a function of the seed and its index, and truncated latents are distributed as the formula says."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from ganexp.facts import UserError
from ganexp.sampling.files import Series
from ganexp.sampling.trained import latents
from ganexp.streams import stream
from tests.sampling import tiny_generators as tiny


@pytest.mark.parametrize("classes", [0, 3])
def test_the_same_index_is_the_same_image_on_any_batch_size(classes):
    G = tiny.images(classes, dtype=torch.float64)
    expected = G.sample(64, seed=3)
    for size in (1, 7, 64):
        made = torch.cat([*G.batches(range(64), seed=3, batch_size=size)])
        torch.testing.assert_close(made, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(G.sample(4, seed=3, first=60), expected[60:], rtol=0, atol=1e-12)
    assert len(expected.flatten(1).unique(dim=0)) == 64


def test_it_draws_where_it_was_moved_to():
    G, double = tiny.images(3), tiny.images(3, dtype=torch.float64)
    expected = double.sample(4)
    torch.testing.assert_close(G.double().sample(4), expected, rtol=0, atol=1e-5)
    assert torch.equal(double.float().sample(4), tiny.images(3).sample(4))
    z = tiny.images(3).to("meta").latents([0])
    assert {one.device.type for one in (z.values, *z.conditions)} == {"meta"}
    assert tiny.images().state_dict().keys() == {f"network.{name}" for name in tiny.images().network.state_dict()}


def test_batches_may_be_trained_on():
    (batch,) = tiny.images().batches(range(4))
    other = torch.nn.Conv2d(1, 1, 3)
    other(batch).sum().backward()
    assert other.weight.grad.abs().sum() > 0


def test_latents_are_the_same_to_the_last_bit_in_any_company_and_precision():
    alone = [latents([index], 5, "normal", seed=1) for index in range(64)]
    assert torch.equal(torch.cat(alone), latents(range(64), 5, "normal", seed=1))
    assert torch.equal(alone[17][0], torch.empty(5, dtype=torch.float64).normal_(generator=stream(1, "samples", index=17)))
    narrow, wide = (tiny.images(dtype=dtype).latents([17], 1).values for dtype in (torch.float32, torch.float64))
    assert torch.equal(narrow, wide.float())


def test_latents_follow_the_prior():
    normal = latents(range(2000), 5, "normal", seed=0).flatten().numpy()
    uniform = latents(range(2000), 5, "uniform", seed=0).flatten().numpy()
    assert stats.kstest(normal, "norm").pvalue > 1e-3
    assert stats.kstest(uniform, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(latents(range(2000), 5, "normal", seed=0).T)[~np.eye(5, dtype=bool)]).max() < 0.1


@pytest.mark.parametrize("bound", [0.05, 0.7, 2.0, 100.0])
def test_truncated_latents_follow_the_truncated_normal_distribution(bound):
    drawn = latents(range(1000), 5, "normal", seed=0, truncation=bound).flatten()
    assert drawn.abs().max() <= bound
    assert stats.kstest(drawn.numpy(), stats.truncnorm(-bound, bound).cdf).pvalue > 1e-3


def test_classes_take_turns_or_are_chosen():
    G = tiny.images(3)
    assert G.labels(range(7))[0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert G.labels(range(4), 2)[0].tolist() == [2] * 4
    torch.testing.assert_close(G.sample(1, label=2, first=5), G.sample(6)[5:], rtol=0, atol=1e-6)
    assert not torch.allclose(G.sample(1, label=1, first=5), G.sample(6)[5:], atol=1e-6)


def test_a_class_is_chosen_by_its_name_or_its_number():
    G = tiny.images(3)
    G.origin = replace(G.origin, class_names=("crane", "heron", "0"))
    for label, number in {"heron": 1, 1: 1, "1": 1, "0": 2, 0: 0}.items():
        assert G.labels(range(2), label)[0].tolist() == [number] * 2
        assert torch.equal(G.sample(1, label=label), G.sample(1, label=number))
        assert Series(G, label=label).described()["label"] == number
    for label in ("ibis", "3", "\x1b[31m", "²"):
        with pytest.raises(UserError, match="one of crane, heron, 0") as caught:
            G.labels([0], label)
        assert str(caught.value).isprintable()


def test_what_cannot_be_sampled_is_one_sentence():
    G, conditional, uniform = tiny.images(), tiny.images(3), tiny.images(prior="uniform")
    for said, call in {
        "n should be 1 or more samples, not 0": lambda: G.sample(0),
        "the generator is unconditional: there is no class 1": lambda: G.sample(1, label=1),
        "label should be one of 3 classes, counted from 0, not 3": lambda: conditional.sample(1, label=3),
        "label should be one of 3 classes, counted from 0, not -1": lambda: conditional.sample(1, label=-1),
        "truncation should be a bound above 0, such as 0.5, not 0": lambda: G.sample(1, truncation=0),
        "truncation should be a bound above 0, such as 0.5, not -1.0": lambda: G.sample(1, truncation=-1.0),
        "truncation should be a bound above 0, such as 0.5, not nan": lambda: G.sample(1, truncation=math.nan),
        "truncation should be a bound above 0, such as 0.5, not inf": lambda: G.sample(1, truncation=math.inf),
        "truncation is for normal latents, and these are uniform": lambda: uniform.sample(1, truncation=0.5),
        "samples are counted from 0: there is none at -2": lambda: G.sample(1, first=-2),
        "seed should be 0 or more, and below 2⁶³, not -1": lambda: G.sample(1, seed=-1),
        "seed should be 0 or more, and below 2⁶³, not 9": lambda: G.sample(1, seed=2**63),
        "the batch size should be 1 or more, not 0": lambda: next(G.batches([0], batch_size=0)),
    }.items():
        with pytest.raises(UserError, match=rf"\A{said}[^\n]*\Z"):
            call()
    next(G.network.parameters()).fill_(math.nan)
    with pytest.raises(UserError, match="not finite"):
        G.sample(1)


@pytest.mark.gpu
def test_a_gpu_makes_the_same_images():
    G = tiny.images()
    expected = G.sample(8)
    G.to("cuda")
    assert torch.allclose(G.sample(8).cpu(), expected, atol=1e-2)  # TF32
