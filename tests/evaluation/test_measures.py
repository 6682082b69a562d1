"""Measures against closed forms, NumPy, and a second library."""

import math

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from torch import nn
from torch_fidelity import metric_isc, metric_kid
from torchmetrics.image.fid import FrechetInceptionDistance
from torchmetrics.image.kid import KernelInceptionDistance

from ganexp.data import Digits, Ring, StackedMNIST
from ganexp.evaluation import CMMD, KID, Evaluator, InceptionScore, ModeCounting, Raw
from ganexp.evaluation.measures.density_coverage import DensityCoverage
from ganexp.evaluation.measures.precision_recall import PrecisionRecall
from ganexp.evaluation.statistics import FeatureBatch, FirstFeatures, FirstLogits, Moments, Projections
from ganexp.facts import Facts, Misfit, UserError
from tests.composing import CONF, measures
from tests.evaluation.feature_sets import drawn, fid, kept


def figures(name, real, fake):
    (measure,) = measures(name).values()
    return measure(kept(measure.keeps(), real), kept(measure.keeps(), fake))


def default_settings(name):
    node = OmegaConf.load(CONF / "measure" / f"{name}.yaml")[name]
    return {key: value for key, value in node.items() if key != "_target_"}


class Given(nn.Module):
    num_features = 6

    def forward(self, features):
        return features


def test_moments_by_batches_are_those_of_numpy():
    features = drawn(301, mean=1e3)
    moments = kept(Moments(), features)
    np.testing.assert_allclose(moments.mean, features.mean(0), rtol=1e-14)
    np.testing.assert_allclose(moments.covariance, np.cov(features, rowvar=False), rtol=1e-9, atol=1e-12)


def test_fid_is_that_of_torchmetrics_and_of_the_papers_formula():
    real, fake = drawn(300), drawn(250, mean=0.3, std=1.4, seed=1)
    found = figures("fid", real, fake)["eval/fid"]
    metric = FrechetInceptionDistance(Given()).set_dtype(torch.float64)
    metric.update(real, real=True)
    metric.update(fake, real=False)
    assert found == pytest.approx(float(metric.compute()), rel=1e-9)
    assert found == pytest.approx(fid(real, fake), rel=1e-9)


@pytest.mark.filterwarnings("ignore:Metric `Kernel Inception Distance` will save all extracted features")
def test_kid_is_that_of_torchmetrics_and_of_a_double_sum():
    real, fake = drawn(60), drawn(60, mean=0.5, seed=1)
    found = figures("kid", real, fake)["eval/kid"]
    metric = KernelInceptionDistance(Given(), subsets=1, subset_size=60)
    metric.update(real, real=True)
    metric.update(fake, real=False)
    assert found == pytest.approx(float(metric.compute()[0]), rel=1e-9)

    def kernel(x, y):
        return (float(x @ y) / 6 + 1) ** 3

    def within(x):
        return sum(kernel(x[i], x[j]) for i in range(60) for j in range(60) if i != j) / (60 * 59)

    across = sum(kernel(x, y) for x in real for y in fake) / 60**2
    assert found == pytest.approx(within(real) + within(fake) - 2 * across, rel=1e-9)


def test_of_larger_sets_kid_takes_subsets_always_the_same():
    """With a subset of two, the estimate is f(x, x') + f(y, y') − (f over all four pairs) / 2, averaged over subsets."""
    real, fake = (kept(FirstFeatures(), one) for one in (drawn(1200), drawn(1300, mean=0.5, seed=1)))
    state = torch.get_rng_state()
    found = KID(subsets=2)(real, fake)
    assert found == KID(subsets=2)(real, fake)
    assert torch.equal(torch.get_rng_state(), state)
    assert found != KID(subsets=3)(real, fake) != KID(subsets=2, subset_size=500)(real, fake)
    draw, expected = np.random.RandomState(0), []
    for _ in range(4):
        x, y = (one.rows.numpy()[draw.choice(len(one.rows), 2, replace=False)] for one in (real, fake))
        own, other, across = ((a @ b.T / 6 + 1) ** 3 for a, b in ((x, x), (y, y), (x, y)))
        expected.append(own[0, 1] + other[0, 1] - across.mean() * 2)
    assert KID(subsets=4, subset_size=2)(real, fake)["eval/kid"] == pytest.approx(np.mean(expected), rel=1e-9)


def manifold(of, k):
    """Return for each sample the radius up to its k-th neighbour, by sorting."""
    distance = np.linalg.norm(of[:, None] - of[None], axis=-1)
    return np.sort(distance, axis=1)[:, k]


@pytest.mark.parametrize(("fakes", "k", "most"), [(70, 3, 90), (4, 3, 90), (80, 2, 60), (80, 7, 60)])
def test_the_measures_by_neighbours_are_the_papers(fakes, k, most):
    real, fake = drawn(90, 2), drawn(fakes, 2, mean=0.8, std=0.6, seed=1)
    x, y = real.numpy()[:most], fake.numpy()[:most]
    across, ball = np.linalg.norm(x[:, None] - y[None], axis=-1), manifold(x, k)[:, None]
    expected = {
        "eval/precision": (across <= ball).any(0).mean(),
        "eval/recall": (across <= manifold(y, k)[None]).any(1).mean(),
        "eval/density": (across <= ball).sum() / (k * len(y)),
        "eval/coverage": (across <= ball).any(1).mean(),
    }
    found = {}
    for measure in (PrecisionRecall(neighbours=k, max_samples=most), DensityCoverage(neighbours=k, max_samples=most)):
        found |= measure(*(kept(measure.statistic(None, None), one) for one in (real, fake)))
    assert found == pytest.approx(expected)
    assert 0.1 < expected["eval/recall"] < expected["eval/precision"] <= 1
    assert (PrecisionRecall().neighbours, DensityCoverage().neighbours) == (3, 5)


def test_sliced_wasserstein_of_shifted_sets_and_of_other_sizes():
    """A shift by v costs |v · direction| in each projection; repeating a set changes nothing."""
    x, shift = drawn(100, 3), torch.tensor([1.0, -2, 0.5], dtype=torch.float64)
    found = figures("sliced_wasserstein", x, x + shift)["eval/sliced_wasserstein"]
    (moved,) = kept(Projections(), shift[None]).batches
    assert found == pytest.approx(float(moved.square().mean().sqrt()), rel=1e-9)
    assert found == pytest.approx(float(shift.norm()) / math.sqrt(3), rel=0.1)
    y = drawn(150, 3, mean=1, seed=1)
    both = figures("sliced_wasserstein", x, y)["eval/sliced_wasserstein"]
    assert figures("sliced_wasserstein", x.repeat(3, 1), y)["eval/sliced_wasserstein"] == pytest.approx(both, rel=1e-12)
    at = (np.arange(300) + 0.5) / 300  # of 100 and 150 samples, every quantile
    (p,), (q,) = (np.array_split(torch.cat(kept(Projections(), one).batches).numpy(), 1) for one in (x, y))
    quantiles = [np.sort(one, 0)[np.floor(at * len(one)).astype(int)] for one in (p, q)]
    assert both == pytest.approx(np.sqrt(((quantiles[0] - quantiles[1]) ** 2).mean()), rel=1e-12)


def test_cmmd_is_the_double_sum_whatever_the_lengths_of_embeddings():
    real, fake = drawn(40), drawn(30, mean=0.5, seed=1)
    x, y = (one.numpy() / np.linalg.norm(one.numpy(), axis=1, keepdims=True) for one in (real, fake))
    for sigma in (10.0, 0.5):
        kernels = [np.exp(-((p[:, None] - q[None]) ** 2).sum(-1) / (2 * sigma**2)).mean() for p, q in ((x, x), (y, y), (x, y))]
        expected = 1000 * (kernels[0] + kernels[1] - 2 * kernels[2])
        found = CMMD(sigma=sigma)(kept(FirstFeatures(), real), kept(FirstFeatures(), 3 * fake))
        assert found == {"eval/cmmd": pytest.approx(expected, rel=1e-9)}
        assert expected > 0


def test_cmmd_of_duplicates_and_of_two_samples():
    """Orthogonal e₁ and e₂ are at a squared distance of 2: copies of them are 2000 (1 − exp(−1/σ²)) apart, halves a quarter."""
    one, other = torch.eye(6)[:1], torch.eye(6)[1:2]
    apart = 2000 * -math.expm1(-0.01)

    def cmmd(x, y):
        return CMMD()(kept(FirstFeatures(), x), kept(FirstFeatures(), y))["eval/cmmd"]

    assert cmmd(one.repeat(200, 1), one.repeat(3, 1)) == 0
    assert cmmd(one.repeat(200, 1), other.repeat(2, 1)) == pytest.approx(apart, rel=1e-12)
    assert cmmd(one.repeat(2, 1), torch.cat([one, other])) == pytest.approx(apart / 4, rel=1e-12)
    x = drawn(1500)
    assert cmmd(x, x.flip(0)) == pytest.approx(0, abs=1e-9)


def test_what_is_kept_is_bounded():
    first = FirstFeatures()
    for _ in range(5):
        first.update(FeatureBatch(torch.zeros(3000, 1), torch.zeros(3000, 1)))
    assert first.rows.shape == (10_000, 1)


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("fid", 6),
        ("precision_recall", 3),
        ("density_coverage", 1),
        ("inception_score", 500),
        ("modes", 500),
        ("kid", 1),
        ("cmmd", 500),
    ],
)
def test_what_a_measure_cannot_use_is_refused(name, n):
    with pytest.raises(UserError, match=f"^{name}: it (needs|is) "):
        Evaluator(measures(name), Raw((6,)), samples=n)


@pytest.mark.parametrize(("name", "measure"), measures().items())
def test_every_measure_keeps_its_contract(name, measure):
    settings = {key: value for key, value in default_settings(name).items() if key != "weights"}  # which the basis identifies
    assert {*measure.settings.split(", ")} - {""} == {f"{key} {value}" for key, value in settings.items()}
    assert all(key.startswith("eval/") and figure.best in ("lowest", "highest") for key, figure in measure.keys.items())
    assert isinstance(measure.statistic(Raw((2,)), Ring().modes), measure.keeps)


def test_figures_of_other_settings_are_told_apart_and_not_taken_from_the_cache(tmp_path):
    x, found = drawn(600, 2), {}
    for kid in (KID(subset_size=50), KID(subset_size=60), KID(subsets=3, subset_size=50)):
        evaluator = Evaluator({"kid": kid}, Raw((2,)), samples=200)
        evaluator.see_reals(x.split(70), len(x), folder=tmp_path, identity="these")
        said = evaluator.keys["eval/kid"]
        found[said.basis] = said.real
    assert next(iter(found)) == "features: raw, subsets 10, subset_size 50, max_samples 10000, 200 samples"
    assert len({*found.values()}) == len(found) == len([*tmp_path.iterdir()]) == 3


def test_the_default_settings_give_the_figures_that_there_were():
    """To the last bit: KID of 10 subsets of 1000, and the Inception score of 10 splits, as torch-fidelity computes them."""
    real, fake = (kept(FirstFeatures(), one) for one in (drawn(1100), drawn(1100, mean=0.1, seed=1)))
    settings = {"kid_subset_size": 1000, "kid_subsets": 10, "rng_seed": 0, "verbose": False}
    expected = metric_kid.kid_features_to_metric(real.rows, fake.rows, **settings)["kernel_inception_distance_mean"]
    assert KID()(real, fake) == {"eval/kid": float(expected)}
    logits = kept(FirstLogits(), fake.rows, logits=fake.rows)
    expected = metric_isc.isc_features_to_metric(fake.rows, 10, True, 0)["inception_score_mean"]
    assert InceptionScore()(None, logits) == {"eval/inception_score": float(expected)}
    assert InceptionScore(splits=1)(None, logits) != InceptionScore()(None, logits)


def test_what_is_measured_by_default_follows_from_the_data():
    chosen, every = {}, measures()
    for data in (Ring(), Digits(), StackedMNIST("nowhere")):
        run = Facts(dataset=data, shape=data.shape)
        chosen[type(data)] = sorted((name for name, one in every.items() if one.suits(run)), key=lambda name: every[name].rank)
    images = ["fid", "kid", "precision_recall", "density_coverage"]
    assert chosen == {Ring: ["sliced_wasserstein", "modes"], Digits: images, StackedMNIST: [*images, "modes"]}


def test_modes_need_data_whose_modes_are_known():
    with pytest.raises(Misfit) as error:
        ModeCounting().check(Facts(dataset=Digits(), shape=(1, 32, 32)))
    assert error.value.remedy["dataset"] == "ring"
