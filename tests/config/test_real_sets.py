"""What samples are compared with: the training data or those that are held out, with their labels where classes count."""

import numpy as np
import pytest
import torch

from ganexp import build
from ganexp.batch import Batch
from ganexp.config.after_training import data_to_evaluate
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.data import MNIST, Digits, Ring
from ganexp.data.feed import to_range
from ganexp.evaluation import Evaluator, Raw, SlicedWasserstein, real_batches
from ganexp.evaluation.evaluator import labelled
from ganexp.facts import UserError
from ganexp.training import Evaluation
from tests.composing import composed
from tests.data.torchvision_sets import write_idx
from tests.small_runs import assert_same

SHORT = ("device=cpu", "iterations=3", "log_every=4", "sample_every=0", "logger=[]", "batch_size=8", "evaluate_every=3")
RING = ("experiment=ring", *SHORT, "dataset.n=500", "generator.width=8", "discriminator.width=8", "evaluation.samples=300")
OF_CLASSES = ("measure=[fid_infinity,intra_fid,cas,memorisation]", "measure.cas.seen=500")
DIGITS = (*SHORT, "dataset.image_size=8", "evaluation.features=raw", "evaluation.samples=700", "conditional=true")
TINY = ("generator=mlp", "discriminator=mlp", "generator.width=8", "discriminator.width=8")


def trained(*overrides):
    trainer = build(composed(*overrides))
    trainer.fit()
    return trainer


@pytest.mark.parametrize("against", ["train", "test"])
def test_samples_are_compared_with_what_is_trained_on_or_with_what_is_held_out(against):
    trainer = trained(*RING, "measure=[sliced_wasserstein,modes]", f"evaluation.against={against}")
    data = Ring(n=500) if against == "train" else Ring(n=500).held_out()
    (callback,) = (one for one in trainer.callbacks if isinstance(one, Evaluation))
    figures = callback.evaluator.keys
    assert ("against held-out data" in figures["eval/sliced_wasserstein"].basis) == (against == "test")
    assert "held" not in figures["eval/modes"].basis, "real data do not count"
    by_hand = Evaluator({"sliced_wasserstein": SlicedWasserstein()}, Raw((2,)), samples=300)
    by_hand.see_reals(real_batches(data.load()), data.n)
    callback.evaluator = by_hand
    assert trainer.last_row["eval/sliced_wasserstein"] == callback(trainer)["eval/sliced_wasserstein"]


def test_labels_come_with_their_samples():
    data = torch.arange(777.0)[:, None]
    for batch in labelled(real_batches(data), torch.arange(777)):
        assert torch.equal(batch.values[:, 0].long(), batch.conditions[0])


def test_measures_of_classes_and_of_copies_change_no_bit_of_a_run_and_have_values_for_digits():
    plain = trained(*DIGITS, *TINY, "evaluate_every=0")
    watched = trained(*DIGITS, *TINY, *OF_CLASSES)
    assert_same(plain.gan.state_dict(), watched.gan.state_dict())
    assert {key for key in watched.last_row if key.startswith("eval/")} == {
        *("eval/fid_infinity", "eval/intra_fid", "eval/cas"),
        *("eval/authenticity", "eval/copies", "eval/nearest_distance"),
    }


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """MNIST of noise: 60 images for training and 40 for tests, of the class that is their number modulo 10."""
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "MNIST" / "raw"
    for part, n in (("train", 60), ("t10k", 40)):
        images = np.random.default_rng(n).integers(0, 256, (n, 28, 28), np.uint8)
        write_idx(folder, images, [i % 10 for i in range(n)], parts=(part,))
    return MNIST(str(tmp_path), image_size=4)


def test_the_test_part_is_at_no_distance_from_itself_within_its_classes(mnist):
    """Which needs its own labels at its own images; under other labels it is far away."""
    settings = (*SHORT, "dataset=mnist", f"data_root={mnist.root}", "dataset.image_size=4", "conditional=true", *TINY)
    settings += ("evaluation.features=raw", "evaluation.samples=40", "measure=[intra_fid]", "evaluation.against=test")
    (callback,) = (one for one in build(composed(*settings)).callbacks if isinstance(one, Evaluation))
    test = mnist.held_out()
    images, labels = to_range(test.load(), torch.float32), test.labels()
    right, wrong = (callback.evaluator([Batch(images, (of,))])["eval/intra_fid"] for of in (labels, labels.roll(1)))
    assert right == pytest.approx(0, abs=1e-6)
    assert wrong > 0.05


def test_held_out_labels_that_cannot_be_read_are_refused_in_a_sentence(mnist, monkeypatch):
    def labels(self):
        if self.arguments["train"]:
            return torch.arange(60) % 10
        raise ValueError("column label of the test part leaves images without a class")

    monkeypatch.setattr(MNIST, "labels", labels)
    settings = (*SHORT, "dataset=mnist", f"data_root={mnist.root}", "dataset.image_size=4", "conditional=true", *TINY)
    settings += ("evaluation.features=raw", "evaluation.samples=40", "measure=[intra_fid]", "evaluation.against=test")
    with pytest.raises(UserError, match=r"^dataset: column label of the test part leaves images without a class\.$"):
        build(composed(*settings))


def test_classes_that_cannot_be_read_are_refused_in_a_sentence_after_training_too(monkeypatch):
    def unreadable(self):
        raise OSError("digits.csv is cut off")

    config = parse(plain(composed(*DIGITS, *TINY, "measure=[kid]")))
    monkeypatch.setattr(Digits, "classes", property(unreadable))
    with pytest.raises(UserError, match=r"^dataset: digits\.csv is cut off\.$"):
        data_to_evaluate(config)


def test_held_out_data_have_an_identity_of_their_own():
    configs = [parse(plain(composed(*RING, f"evaluation.against={against}"))) for against in ("train", "test")]
    assert len({data_to_evaluate(config).identity for config in configs}) == 2


def test_what_has_no_value_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UserError, match=r"^measure\.cas needs .*: choose conditional=true\.$"):
        build(composed(*SHORT, "measure=[cas]"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
