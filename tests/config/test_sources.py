"""Runs on data with sources: fed, resumed, looked at, evaluated and loaded as the configuration says."""

import re

import numpy as np
import pytest
import torch
from PIL import Image

import ganexp
from ganexp.config.check import check
from ganexp.data import Digits
from ganexp.facts import UserError
from ganexp.logging.reading import read
from tests.composing import composed
from tests.tiny import state

SMALL = [
    *("dataset=degraded", "dataset.hold_out=297", "dataset.of.image_size=16", "dataset.how=noisy", "batch_size=4"),
    *("generator=unet", "generator.width=2", "generator.depth=2", "discriminator=patch", "discriminator.width=2"),
    *("discriminator.layers=1", "term=[l1,l2]", "term.l2.weight=3", "log_every=2", "sample_every=4", "checkpoint_every=3"),
    *("iterations=6", "logger=[]", "device=cpu"),
]

TWO_WAY = ["generator=two_way", "discriminator=two_way", "discriminator.of.layers=1", "term=[cycle]"]
OTHERS = ("dataset", "generator", "discriminator", "term")
"""What a run between two sets has otherwise."""


def run(folder, *words, checkpoint=None):
    return ganexp.build(composed(*SMALL, *words), folder, checkpoint=checkpoint)


def test_a_resumed_run_is_the_uninterrupted_one_and_a_streamed_one_too(tmp_path):
    whole, half = run(tmp_path / "whole"), run(tmp_path / "half", "iterations=3")
    whole.fit()
    half.fit()
    resumed = run(tmp_path / "half", checkpoint=tmp_path / "half/checkpoints/last.pt")
    resumed.fit()
    streamed = run(tmp_path / "streamed", "feed=streamed", "workers=0")
    streamed.fit()
    for other in (resumed, streamed):
        assert all(map(torch.equal, state(whole.gan), state(other.gan)))


def test_pictures_show_held_out_sources_outputs_and_targets(tmp_path):
    run(tmp_path).fit()
    image = Image.open(tmp_path / "samples/samples_0000004.png")
    assert image.size == (2 + 4 * (3 * 16 + 2 + 8 + 2), 2 + 8 * 18)
    digits = Digits(image_size=16).load()
    held = torch.tensor([(2 * i + 1) * 1797 // 594 for i in range(297)])
    trained = torch.tensor(sorted({*range(1797)} - {*held.tolist()}))
    pixels = torch.from_numpy(np.array(image.convert("L")))
    shown = pixels[2:18, 2 + 34 : 2 + 50]  # the first target
    assert any(torch.equal(shown, one[0]) for one in digits[held])
    assert not any(torch.equal(shown, one[0]) for one in digits[trained])


def test_rows_have_the_values_of_terms_and_the_best_checkpoint_may_follow_one(tmp_path):
    run(tmp_path, "keep_best=terms/l1").fit()
    rows = [row for row in read(tmp_path).rows if "terms/l1" in row]
    assert all(0 < row["terms/l2"] < 2 * row["terms/l1"] for row in rows)
    assert (tmp_path / "checkpoints/best.pt").exists()
    with pytest.raises(UserError, match="keep_best"):
        run(None, "keep_best=terms/l3")


def test_a_run_is_evaluated_on_each_held_out_source_once(tmp_path):
    evaluated = ("evaluate_every=3", "measure=[kid]", "evaluation.features=raw", "evaluation.samples=400")
    trainer = run(tmp_path, *evaluated)
    trainer.fit()
    assert sum("eval/kid" in row for row in read(tmp_path).rows) == 2
    seen = torch.cat([one.values for one in trainer.gan.prior.in_batches(400, 250)])
    assert len(seen.flatten(1).unique(dim=0)) == len(seen) == 297


def test_a_loaded_generator_maps_sources_and_has_no_latents(tmp_path):
    trainer = run(tmp_path, "average=none")
    trainer.fit()
    loaded = ganexp.load(tmp_path)
    source = torch.rand(3, 1, 16, 16)
    assert loaded.source_shape == (1, 16, 16)
    trained = trainer.gan.generator.eval().to(memory_format=torch.contiguous_format)  # on some CPUs, others round differently
    torch.testing.assert_close(loaded(source), trained(source), rtol=0, atol=0)
    with pytest.raises(UserError, match="translator"):
        loaded.sample(3)
    discriminator = ganexp.load_discriminator(tmp_path)
    assert discriminator(torch.rand(3, 1, 16, 16), source).shape[:2] == (3, 1)


def test_a_source_that_d_does_not_read_changes_no_score(tmp_path):
    trainer = run(None, "discriminator.reads_source=false", "augment=diffaugment")
    trainer.fit()
    assert trainer.gan.discriminator.layers[0].weight.shape[1] == 1


def test_a_number_of_a_term_moves(tmp_path):
    trainer = run(tmp_path, "moving={term.l1.weight:0,balance.weight:0.25}")
    trainer.fit()
    assert float(trainer.gan.terms["l1"].weight) == pytest.approx(0, abs=1e-6)
    assert float(trainer.gan.balance.weight) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["dataset.of.image_size=21"], "dataset.of.image_size=4"),
        (["dataset=separated", "dataset.of.how=edges", "dataset.of.of.image_size=18", *TWO_WAY], "dataset.of.of.image_size=16"),
    ],
)
def test_the_size_of_images_is_asked_for_where_it_lies(words, key):
    with pytest.raises(UserError, match=re.escape(key)):
        check(composed(*[one for one in SMALL if words[0] != "dataset=separated" or not one.startswith(OTHERS)], *words))


def test_a_run_begins_from_the_weights_of_one_on_other_terms_and_takes_nothing_else(tmp_path):
    without = [one for one in SMALL if not one.startswith("term")]
    first = ganexp.build(composed(*without, "term=[l1]", "term.l1.weight=1e6"), tmp_path / "first")
    first.fit()
    weights = {key: one.clone() for key, one in first.gan.generator.state_dict().items()}
    second = ganexp.build(composed(*without, "term=[l2]", f"init_from={tmp_path / 'first'}"))
    assert [*second.gan.terms] == ["l2"]
    assert all(torch.equal(one, weights[key]) for key, one in second.gan.generator.state_dict().items())
    second.fit()
    assert any(not torch.equal(one, weights[key]) for key, one in second.gan.generator.state_dict().items())


@pytest.mark.parametrize("features", ["inception", "dinov2_vits14"])
def test_features_of_colour_are_refused_for_stacks_before_their_weights_are_read(features):
    measured = ["evaluate_every=1", "measure=[kid]", f"evaluation.features={features}"]
    with pytest.raises(UserError, match=r"evaluation\.features"):
        check(composed("experiment=cyclegan_digits", "logger=[]", *measured))
