"""FID at infinity and within classes, memorisation and CAS, against NumPy, closed forms and data whose answer is known."""

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from scipy.stats import linregress

from ganexp.data import Digits
from ganexp.evaluation import Raw
from ganexp.evaluation.measures.cas import CAS
from ganexp.evaluation.measures.density_coverage import DensityCoverage
from ganexp.evaluation.measures.fid import FIDInfinity, IntraFID, frechet_distances
from ganexp.evaluation.measures.inception_score import InceptionScoreInfinity
from ganexp.evaluation.measures.memorisation import Memorisation
from ganexp.evaluation.statistics import (
    ClassMoments,
    FeatureBatch,
    FirstFeatures,
    FirstLogits,
    LabelledImages,
    Moments,
    MomentsInParts,
)
from ganexp.facts import Facts, Misfit, UserError
from tests.evaluation.feature_sets import drawn, fid, kept


def test_frechet_distance_is_the_papers_formula_for_several_at_once():
    x, ys = drawn(90), [drawn(80, mean=mean, std=2, seed=1) for mean in (0, 0.5)]
    found = frechet_distances(kept(Moments(), x), [kept(Moments(), y) for y in ys])
    assert found == pytest.approx([fid(x, y) for y in ys], rel=1e-9)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_frechet_distance_of_singular_gaussians_is_the_closed_form(rank):
    """Σ and s²Σ commute: |m|² + (1 − s)² Tr Σ, however many directions have no spread."""
    x = drawn(50)
    x[:, rank:] = 0
    y = 3 * x + 2
    spread = float(x.var(0).sum())
    shift = float((y.mean(0) - x.mean(0)).square().sum())
    (found,) = frechet_distances(kept(Moments(), x), [kept(Moments(), y)])
    assert found == pytest.approx(shift + 4 * spread, rel=1e-7)


def gaussian(covariance, n=1000):
    moments = Moments()
    moments.n, moments.mean, moments.scatter = n, torch.zeros(len(covariance), dtype=torch.float64), covariance * (n - 1)
    return moments


@pytest.mark.parametrize("n", [2, 40, 1000])
@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
def test_frechet_distance_of_a_set_with_itself_is_0(n, scale):
    x = kept(Moments(), drawn(n, size=400, std=scale))
    (found,) = frechet_distances(x, [x])
    assert 0 <= found < 1e-12 * x.covariance.trace()


def test_frechet_distance_of_singular_gaussians_whose_covariances_commute_is_that_of_standard_deviations():
    q = torch.linalg.qr(drawn(200, size=200)).Q
    a, b = (torch.rand(200, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in (1, 2))
    a[:150], b[100:] = 0, 0
    a[199], b[0] = 1e5, 1e-5
    found = frechet_distances(gaussian((q * a) @ q.T), [gaussian((q * b) @ q.T)])
    assert found == pytest.approx([float((a.sqrt() - b.sqrt()).square().sum())], rel=1e-10)


def test_frechet_distance_of_projections_is_given_by_their_angles():
    """Tr (P P')^½ is the sum of the cosines of the angles between the two subspaces."""
    p, other = (torch.linalg.qr(drawn(300, size=rank, seed=rank)).Q for rank in (20, 60))
    (found,) = frechet_distances(gaussian(p @ p.T), [gaussian(other @ other.T)])
    assert found == pytest.approx(20 + 60 - 2 * np.cos(subspace_angles(p.numpy(), other.numpy())).sum(), rel=1e-10)


def test_moments_in_parts_are_those_of_every_tenth_sample_and_of_the_first_parts_together():
    x = drawn(333, mean=100)
    statistic = kept(MomentsInParts(10), x)
    for parts, moments in enumerate(statistic.growing(), start=1):
        own = x[torch.arange(333) % 10 < parts]
        assert moments.n == len(own)
        np.testing.assert_allclose(moments.mean, own.mean(0), rtol=1e-12)
        np.testing.assert_allclose(moments.covariance, np.cov(own, rowvar=False), rtol=1e-9, atol=1e-12)


def test_fid_at_infinity_is_a_line_through_fids_of_growing_sets():
    x, y = drawn(500), drawn(400, mean=0.2, std=1.3, seed=1)
    measure = FIDInfinity(sizes=5)
    found = measure(kept(measure.statistic_of_reals(None, None), x), kept(measure.statistic(None, None), y))
    sets = [y[torch.arange(400) % 5 < parts] for parts in range(1, 6)]
    line = linregress([1 / len(one) for one in sets], [fid(x, one) for one in sets])
    assert found == {"eval/fid_infinity": pytest.approx(line.intercept, rel=1e-9)}


def test_inception_score_at_infinity_is_a_line_through_scores_of_growing_sets():
    logits = 2 * drawn(1000, 5)
    (found,) = InceptionScoreInfinity(sizes=4)(None, kept(FirstLogits(), drawn(1000, 1), logits=logits)).values()
    p = np.exp(logits.numpy())
    p /= p.sum(1, keepdims=True)
    scores = [np.exp((p[:n] * np.log(p[:n] / p[:n].mean(0))).sum(1).mean()) for n in (250, 500, 750, 1000)]
    assert found == pytest.approx(linregress([1 / 250, 1 / 500, 1 / 750, 1 / 1000], scores).intercept, rel=1e-9)


def test_fid_within_classes_is_the_mean_of_each_classs_own():
    """Classes 0, 2 and 5; three samples of six features are a singular set."""
    generator = torch.Generator().manual_seed(3)
    of_real, of_fake = (torch.tensor([0, 2, 5])[torch.randint(3, (n,), generator=generator)] for n in (400, 150))
    x, y = drawn(400) + of_real[:, None], drawn(150, std=1.5, seed=1) - of_fake[:, None]
    few = (of_fake == 5).nonzero()[3:, 0]
    keep = torch.ones(150, dtype=torch.bool).index_fill(0, few, False)
    y, of_fake = y[keep], of_fake[keep]
    found = IntraFID()(kept(ClassMoments(), x, labels=of_real), kept(ClassMoments(), y, labels=of_fake))
    expected = np.mean([fid(x[of_real == label], y[of_fake == label]) for label in (0, 2, 5)])
    assert found == {"eval/intra_fid": pytest.approx(expected, rel=1e-6)}


def test_a_generator_that_mixes_up_two_classes_is_seen_within_classes_alone():
    labels = torch.arange(400) % 2
    x = drawn(400) + 5 * labels[:, None]
    real, mixed = (kept(ClassMoments(), x, labels=of) for of in (labels, 1 - labels))
    assert 0 <= IntraFID()(real, real)["eval/intra_fid"] < 1e-12
    assert IntraFID()(real, mixed)["eval/intra_fid"] == pytest.approx(6 * 25, rel=0.05)


@pytest.mark.parametrize("label", [0, 3])
def test_a_class_of_fewer_than_two_generated_samples_has_no_distance(label):
    real = kept(ClassMoments(), drawn(20), labels=torch.arange(20) % 4)
    labels = torch.arange(20) % 4
    labels[labels == label] = 1
    labels[0] = label if label else 1
    with pytest.raises(UserError, match=f"class {label} "):
        IntraFID()(real, kept(ClassMoments(), drawn(20, seed=1), labels=labels))


def by_hand(real, fake):
    """Authenticity, copies and nearest distance by sorting all distances."""
    x, y = real.numpy(), fake.numpy()
    across = np.linalg.norm(y[:, None] - x[None], axis=-1)
    within = np.linalg.norm(x[:, None] - x[None], axis=-1) + np.diag(np.full(len(x), np.inf))
    nearest, order = np.sort(across, 1), across.argmin(1)
    return {
        "eval/authenticity": (nearest[:, 0] > within.min(1)[order]).mean(),
        "eval/copies": (nearest[:, 0] < nearest[:, 1] / 3).mean(),
        "eval/nearest_distance": np.median(nearest[:, 0]) / np.median(within.min(1)[: len(y)]),
    }


@pytest.mark.parametrize("at_once", [2**25, 400])
def test_memorisation_is_what_sorted_distances_say(at_once, monkeypatch):
    monkeypatch.setattr("ganexp.evaluation.measures.memorisation.AT_ONCE", at_once)
    real = drawn(121, 3)
    fake = torch.cat([drawn(41, 3, seed=1), real[:30] + 1e-3, real[30:50]])
    found = Memorisation()(kept(FirstFeatures(), real), kept(FirstFeatures(), fake))
    assert found == pytest.approx(by_hand(real, fake), rel=1e-9)
    assert 0.5 < found["eval/copies"] < 1 > found["eval/authenticity"] > 0


def test_copies_noise_and_other_samples_of_the_data_are_told_apart():
    real, other = drawn(600, 4), drawn(600, 4, seed=1)
    figures = {
        name: Memorisation()(kept(FirstFeatures(), real), kept(FirstFeatures(), fake))
        for name, fake in {"copies": real.flip(0), "other": other, "noise": other + 100}.items()
    }
    assert figures["copies"] == {"eval/authenticity": 0, "eval/copies": 1, "eval/nearest_distance": 0}
    assert 0.4 < figures["other"]["eval/authenticity"] < 0.7
    assert figures["other"]["eval/copies"] < 0.05
    assert figures["other"]["eval/nearest_distance"] == pytest.approx(1, rel=0.1)
    assert figures["noise"]["eval/authenticity"] == 1
    assert figures["noise"]["eval/nearest_distance"] > 50


def test_of_data_that_are_all_alike_nothing_is_a_copy_of_one_of_them():
    real = torch.ones(10, 3, dtype=torch.float64)
    found = Memorisation()(kept(FirstFeatures(), real), kept(FirstFeatures(), real))
    assert found == {"eval/authenticity": 0, "eval/copies": 0, "eval/nearest_distance": 1}


def squares(labels, *, noise, seed=0):
    """Black images 8×8 with a white quarter, whose place is the class."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.full((len(labels), 1, 8, 8), -1.0)
    for place, (down, right) in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
        images[labels == place, :, down : down + 4, right : right + 4] = 1
    return (images + noise * torch.randn(images.shape, generator=generator)).clamp(-1, 1)


def cas(fake_labels, seen=2500):
    labels = torch.arange(256) % 4
    real = kept(LabelledImages(1000), squares(labels, noise=0.3, seed=1), labels=labels)
    fake = kept(LabelledImages(1000), squares(labels, noise=0.3), labels=fake_labels)
    return CAS(seen=seen)(real, fake)["eval/cas"]


def test_cas_is_one_if_labels_are_right_and_zero_if_all_are_wrong():
    labels = torch.arange(256) % 4
    assert cas(labels) == 1
    assert cas((labels + 1) % 4) == 0


def test_a_classifier_that_has_seen_one_label_knows_its_share_of_the_data():
    assert cas(torch.zeros(256, dtype=torch.int64), seen=600) == 0.25


def test_cas_is_always_the_same_and_moves_no_random_stream():
    labels = torch.arange(256) % 4
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch.no_grad():
        first = cas(labels.flip(0), seen=600)
    assert torch.equal(torch.rand(3), expected)
    assert cas(labels.flip(0), seen=600) == first


def test_images_are_kept_as_the_pixels_that_they_would_be_saved_as():
    images = torch.tensor([-1.2, -1, 0, 0.5, 1, 1.5]).reshape(1, 1, 2, 3).repeat(5, 1, 1, 1)
    statistic = LabelledImages(3)
    for begin in (0, 2, 4):
        some = slice(begin, begin + 2)
        statistic.update(FeatureBatch(images[some], images[some].flatten(1), labels=torch.arange(5)[some]))
    assert statistic.images[2].flatten().tolist() == [0, 0, 128, 191, 255, 255]
    assert statistic.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", [IntraFID, CAS])
def test_measures_of_classes_refuse_runs_without(kind):
    with pytest.raises(Misfit) as error:
        kind().check(Facts(dataset=Digits(), shape=(1, 32, 32)))
    assert error.value.remedy["conditional"] is True


@pytest.mark.parametrize(
    ("measure", "n", "of"),
    [
        (FIDInfinity(), 69, "generated"),
        (FIDInfinity(), 6, "real"),
        (IntraFID(), 1, "real"),
        (Memorisation(), 2, "real"),
        (CAS(), 127, "generated"),
        (InceptionScoreInfinity(), 999, "generated"),
    ],
)
def test_sets_that_are_too_small_are_refused(measure, n, of):
    with pytest.raises(UserError, match=r"^it needs "):
        measure.refuse(Raw((6,)), n, of)
    measure.refuse(Raw((6,)), n + 1, of)


def test_parts_of_fewer_than_a_hundred_samples_are_refused_whatever_bounds_them():
    with pytest.raises(UserError, match=r"^it needs at least 1,000 generated samples, and there are 500"):
        InceptionScoreInfinity(max_samples=500).refuse(Raw((6,)), 10_000, "generated")


def test_features_without_classes_have_no_inception_score():
    assert "classes" in InceptionScoreInfinity().unsuited(Raw((6,)), None)


@pytest.mark.parametrize("k", [2, 7])
def test_a_ball_needs_so_many_samples(k):
    with pytest.raises(UserError, match=rf"at least {k + 1} "):
        DensityCoverage(neighbours=k, max_samples=k + 1).refuse(Raw((2,)), k, "real")
