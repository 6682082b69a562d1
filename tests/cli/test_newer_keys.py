"""Mistakes with labels, packs, accumulation, schedules, augmentations and evaluations: one sentence each, or a warning."""

import pytest

from ganexp.cli.composing import compose
from ganexp.config.check import check
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.facts import UserError
from tests.composing import composed

SMALL = ["generator.width=4", "discriminator.width=4", "batch_size=8"]


def test_a_buffer_that_does_not_fit_into_memory_names_a_size_that_does():
    with pytest.raises(UserError, match=r"GiB are free: choose wrapper\.replay\.size=\d+\.$"):
        check(compose(*SMALL, "wrapper=[replay]", "wrapper.replay.share=0.5", "wrapper.replay.size=1000000000"))


def test_another_list_drops_what_a_preset_sets_of_its_own():
    assert list(compose("experiment=grid", "penalty=[r1]").penalty) == ["r1"]
    assert list(compose("experiment=topk_ring", "wrapper=[]").wrapper) == []
    typed = compose("experiment=grid", "penalty=[r1]", "penalty.gradient_penalty.weight=3")
    with pytest.raises(UserError, match=r"penalty\.gradient_penalty"):
        check(typed)


def test_off_is_off():
    assert parse(plain(composed("clip_gradients=false"))).clip_gradients is False


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["measure=[fid]", "evaluation.samples=9"], "measure and evaluation.samples will have no effect: choose"),
        (
            ["evaluate_every=9", "evaluation.features=raw", "keep_best=eval/fdi"],
            "keep_best=eval/fdi is no figure of this evaluation, ",
        ),
        (
            ["wrapper=[topk]", "wrapper.topk.nu=0.5", "wrapper.topk.every=2500"],
            "wrapper.topk leaves out no fake within iterations=2500: lower every or gamma.",
        ),
        (
            ["wrapper=[replay]", "wrapper.replay.share=0.5", "wrapper.replay.size=50000"],
            "for which its buffer is not full: lower size.",
        ),
    ],
)
def test_what_has_no_effect_is_said(overrides, sentence):
    (said,) = check(compose(*SMALL, *overrides)).warnings
    assert sentence in said
    assert said.endswith(".")
