"""Several penalties at once: in Python, and from a configuration."""

import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.losses import NonSaturating
from ganexp.penalties import (
    R1,
    R1R2,
    R2,
    ApproximateR1R2,
    DivergencePenalty,
    Dragan,
    GradientPenalty,
    LipschitzPenalty,
    NoPenalty,
    OneCentred,
    Orthogonal,
    Spectral,
    Sum,
    WeightClipping,
    total,
)
from tests.composing import composed
from tests.small_runs import NARROW
from tests.tiny import Case, iterate, real_batches, tiny_gan


def every_kind():
    return Sum(parts={"a": R1(weight=3.0), "b": DivergencePenalty(every=2), "c": WeightClipping(bound=0.3), "d": NoPenalty()})


def test_terms_add_and_constraints_hold():
    gan, single = (tiny_gan(Case(NonSaturating, make)) for make in (every_kind, DivergencePenalty))
    x, fake = next(real_batches()), gan.generate(gan.sample()).detach()
    pulled = 2 * single.penalty.term(single.discriminator, x, fake).item()
    flattened = R1(weight=3.0).term(gan.discriminator, x, fake).item()
    assert gan.d_loss(x, fake).penalty.item() == pytest.approx(flattened + pulled, rel=1e-12)
    gan.update_d(gan.d_loss(x, fake))
    assert max(p.abs().max() for p in gan.d_parameters) == 0.3
    assert gan.d_loss(x, fake).penalty.item() == R1(weight=3.0).term(gan.discriminator, x, fake).item()  # b has a rest


def test_it_is_what_its_parts_are():
    lazy, plain = every_kind(), Sum(parts={"a": R1(), "b": LipschitzPenalty()})
    assert (lazy.needs_logits, lazy.differentiates_gradients) == (True, True)
    assert lazy.turn(1, 1) is not None
    assert plain.turn(1, 1) is None
    assert not lazy.keeps_count
    clipped = Sum(parts={"c": WeightClipping()})
    assert (clipped.needs_logits, clipped.differentiates_gradients) == (False, False)
    assert (
        tiny_gan(Case(NonSaturating, lambda: clipped)).d_loss(torch.zeros(6, 2).double(), torch.zeros(6, 2).double()).penalty
        is None
    )
    alone = R1()
    assert total({"r1": alone}) is alone
    assert type(total({})) is NoPenalty
    assert [*total({"r2": R2(), "r1": alone}).penalties] == ["r2", "r1"]
    with pytest.raises(ValueError, match="there is nothing to sum"):
        Sum(parts={})


SUM = ["penalty=[r1,wgan_lp]"]


def test_parts_are_options_with_their_settings():
    trainer = build(composed(*NARROW, *SUM, "penalty.wgan_lp.weight=3", "penalty.wgan_lp.every=2"))
    parts = trainer.gan.penalty.penalties
    assert (type(parts["r1"]), type(parts["wgan_lp"]), parts["wgan_lp"].weight, parts["wgan_lp"].every) == (
        R1,
        LipschitzPenalty,
        3,
        2,
    )
    iterate(trainer, 3)
    assert trainer.gan.meter.so_far()["loss/penalty"] > 0


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["loss=wgan", "penalty=[weight_clipping,gradient_penalty]"],
            r"weight_clipping and gradient_penalty exclude each other \(both are WGAN's constraint",
        ),
        (["penalty=[r1,wgan_lp,dragan]"], r"penalty=\[r1,wgan_lp,dragan\]: r1 and dragan exclude each other \(one pulls"),
        ([*SUM, "loss=began", "discriminator=began"], "penalty.r1 needs a discriminator that returns logit scores"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(overrides, said):
    with pytest.raises(UserError, match=said):
        check(composed(*overrides))


FLAT, STEEP, EITHER = (
    (R1, R2, R1R2, ApproximateR1R2, DivergencePenalty),
    (OneCentred, Dragan, GradientPenalty),
    (Spectral, Orthogonal, NoPenalty),
)


@pytest.mark.parametrize(
    ("some", "others"),
    [(FLAT, STEEP), ((WeightClipping,), STEEP), ((WeightClipping,), (LipschitzPenalty,))],
)
def test_what_cannot_be_met_at_once_is_refused_in_any_order_and_depth(some, others):
    for one in some:
        for other in others:
            for pair in ((one(), other()), (other(), one()), (one(), Sum(parts={"inner": other(), "none": NoPenalty()}))):
                with pytest.raises(ValueError, match=r"a and b exclude each other \("):
                    Sum(parts=dict(zip("ab", pair, strict=True)))


@pytest.mark.parametrize("kinds", [FLAT, STEEP, (*FLAT, LipschitzPenalty), (*STEEP, LipschitzPenalty), (*FLAT, WeightClipping)])
def test_what_agrees_is_added_up(kinds):
    parts = {kind.__name__: kind() for kind in (*kinds, *EITHER)}
    assert Sum(parts=parts).penalties == parts
