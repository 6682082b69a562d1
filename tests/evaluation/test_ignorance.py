"""What knows nothing judges nothing: no perfect figure comes from one class, classes of noise, or constant features."""

from math import comb

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp import Facts, Misfit, build
from ganexp.config.after_training import data_to_evaluate, evaluate_images
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.data import Digits
from ganexp.data.unscaled import images_in
from ganexp.evaluation import CAS, Classifier, Evaluator, classifier
from ganexp.evaluation.classifier import SHUFFLES, ClassifierRecord, KnowsNothing, by_chance, train, train_if_missing
from ganexp.facts import UserError
from tests.composing import composed, measures

SMALL = (
    "device=cpu",
    "dataset=image_folder",
    "dataset.image_size=8",
    "dataset.channels=1",
    "generator=mlp",
    "discriminator=mlp",
)
EVALUATED = ("evaluate_every=9", "evaluation.samples=100", "measure=[fid,precision_recall]", "logger=[]", "batch_size=8")


def noise(n, seed):
    return np.random.default_rng(seed).integers(0, 256, (n, 8, 8), np.uint8)


def written(images, folder):
    folder.mkdir(parents=True)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:04d}.png")
    return folder


def digits():
    return Digits(image_size=8).load()[:200, 0].numpy()


def fid_by_numpy(x, y):
    """The Fréchet distance by its formula; the trace of (ΣΣ')^½ is the sum of the roots of the eigenvalues of ΣΣ'."""
    mean, covariance = (x.mean(0), y.mean(0)), (np.cov(x.T), np.cov(y.T))
    shared = np.sqrt(np.linalg.eigvals(covariance[0] @ covariance[1]).real.clip(0)).sum()
    return ((mean[0] - mean[1]) ** 2).sum() + np.trace(covariance[0]) + np.trace(covariance[1]) - 2 * shared


def precision_by_numpy(real, fake, k=3):
    apart = np.linalg.norm(real[:, None] - real[None], axis=2)
    radius = np.sort(apart, 1)[:, k]
    return (np.linalg.norm(fake[:, None] - real[None], axis=2) <= radius).any(1).mean()


def folders(kind, path):
    if kind == "one class":
        written(digits(), path / "data" / "all")
    elif kind == "noise in two classes":
        written(noise(100, 0), path / "data" / "a")
        written(noise(100, 1), path / "data" / "b")
    else:
        written(digits(), path / "data")
    return f"dataset.path={path / 'data'}"


@pytest.mark.parametrize("kind", ["one class", "noise in two classes", "no class"])
@pytest.mark.slow
def test_images_without_classes_to_know_are_compared_in_pixels(kind, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    config = parse(plain(composed(*SMALL, *EVALUATED, folders(kind, tmp_path))))
    data = data_to_evaluate(config)
    (sentence,) = [record.getMessage() for record in caplog.records if "features=raw" in record.getMessage()]
    assert sentence.endswith(".")
    made = written(noise(100, 7), tmp_path / "made")
    found = evaluate_images(data, config, images_in(made, (1, 8, 8), 100)).figures
    real = np.concatenate([np.array(Image.open(one), float).reshape(1, -1) for one in (tmp_path / "data").rglob("*.png")])
    real, fake = real / 127.5 - 1, noise(100, 7).reshape(100, -1) / 127.5 - 1
    assert found["eval/fid"] == pytest.approx(fid_by_numpy(real, fake), rel=1e-4)
    assert found["eval/fid"] > 1
    assert found["eval/precision"] == pytest.approx(precision_by_numpy(real, fake), abs=0.02)
    assert kind == "noise in two classes" or found["eval/precision"] == 0


@pytest.mark.parametrize("kind", ["one class", "noise in two classes", "no class"])
@pytest.mark.slow
def test_a_classifier_that_was_asked_for_and_knows_nothing_is_refused(kind, monkeypatch, tmp_path):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    asked = (*SMALL, *EVALUATED, folders(kind, tmp_path), "evaluation.features=classifier")
    for _ in range(2):  # the second time it is there
        with pytest.raises(UserError, match=r"^evaluation.*choose .*inception, raw or a file\.$"):
            build(composed(*asked), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_probability_of_an_accuracy_is_that_of_shuffled_classes():
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    exact = 1 / comb(8, 4)  # of all ways to shuffle them, one is right throughout
    assert by_chance(labels, labels) == pytest.approx(exact, abs=4 * (exact / SHUFFLES) ** 0.5)
    seven = torch.tensor([0, 0, 0, 0, 1, 1, 1, 0])  # of 3 ones, 3 of 4 places: 4 ways of C(8, 3)
    assert by_chance(seven, labels) == pytest.approx(4 / comb(8, 3), abs=4 * (4 / comb(8, 3) / SHUFFLES) ** 0.5)
    assert by_chance(torch.zeros(8, dtype=torch.long), labels) == 1  # one answer to everything
    often = torch.arange(1000) % 20 == 0
    assert by_chance(torch.zeros(1000, dtype=torch.bool), often) == 1  # right for 95 %, and knows nothing
    assert by_chance(often, often) == 1 / (1 + SHUFFLES)


def test_a_classifier_knows_digits_and_no_noise():
    data = Digits(image_size=8)
    images, labels = data.load(), data.labels()
    assert not train(images, labels, "digits", epochs=2).ignorance
    assert not train(images[:200], labels[:200], "digits", epochs=40).ignorance
    assert "no more than chance" in train(torch.from_numpy(noise(200, 0))[:, None], labels[:200], "noise", epochs=5).ignorance


@pytest.mark.slow
def test_one_of_an_earlier_format_is_trained_anew(tmp_path):
    path, data = tmp_path / "digits.pt", Digits(image_size=8)
    Classifier(ClassifierRecord("digits", (1, 8, 8), 10)).save(path)
    saved = torch.load(path, weights_only=True)
    del saved["origin"]["by_chance"]
    torch.save({**saved, "format": 2}, path)
    train_if_missing(path, data, "digits", torch.device("cpu"))
    assert not Classifier.load(path).ignorance


def test_too_few_images_or_classes_train_none(tmp_path, monkeypatch):
    monkeypatch.setattr(classifier, "train", lambda *_, **__: pytest.fail("it is trained"))
    for data in (Few(4, 2), Few(33, 2), Few(40, 1), Few(40, 0)):
        with pytest.raises(KnowsNothing):
            train_if_missing(tmp_path / "few.pt", data, "few", torch.device("cpu"))
    with pytest.raises(Misfit):
        CAS().check(Facts(shape=(1, 8, 8), conditional=True, classes=1))


class Few(Digits):
    """The first digits, of as many classes as are said."""

    def __init__(self, n, classes):
        super().__init__(image_size=8)
        self.n, self.classes = n, classes

    def fingerprint(self):
        return None

    def load(self):
        return super().load()[: self.n]

    def labels(self):
        return super().labels()[: self.n] % max(1, self.classes)


class Seen:
    """Features of ten pixels: `offset + scale × pixels`, to the rounding of float32."""

    name, checksum, size, classes = "seen", "", 10, 0

    def __init__(self, offset, scale):
        self.offset, self.scale = offset, scale

    def __call__(self, samples):
        return self.offset + self.scale * samples.flatten(1)[:, :10], None


@pytest.mark.parametrize("name", ["fid", "precision_recall", "density_coverage", "memorisation"])
def test_constant_features_give_no_figure(name, tmp_path):
    images = torch.from_numpy(noise(300, 0))[:, None] / 127.5 - 1
    for offset, scale in ((0.5, 0), (0, 0), (1, 1e-7), (0, 1e-17)):
        evaluator = Evaluator(measures(name), Seen(offset, scale), samples=100)
        for _ in range(2):  # the second time, from the cache
            with pytest.raises(UserError, match=r"seen .*judge nothing"):
                evaluator.see_reals(images.split(70), 300, folder=tmp_path, identity=f"{offset} {scale}")
    evaluator = Evaluator(measures(name), Seen(1, 1e-3), samples=100)
    evaluator.see_reals(images.split(70), 300)
    assert len(evaluator(torch.zeros(100, 1, 8, 8).split(40))) > 0
