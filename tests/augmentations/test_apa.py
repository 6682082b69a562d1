"""APA: which samples are shown as real, to what, and a plain loop."""

import pytest
import torch

from ganexp import strategies
from ganexp.augmentations import Apa
from ganexp.batch import Batch
from ganexp.losses import RpGAN
from ganexp.penalties import R1
from tests.augmentations.images import begun, built, images, weights
from tests.tiny import descend, iterate


def test_each_sample_is_a_generated_one_with_probability_p_under_its_own_label():
    apa, x, fake = begun(Apa(p=0.3)), images(4000, 1, 2, 2), images(4000, 1, 2, 2, seed=1).requires_grad_()
    shown = apa.shown_as_real(Batch(x, (torch.zeros(4000),)), Batch(fake, (torch.ones(4000),)))
    swapped = (shown.values == fake).flatten(1).all(1)
    assert torch.equal(shown.values[~swapped], x[~swapped])
    assert torch.equal(shown.conditions[0], swapped.float())
    assert swapped.float().mean().item() == pytest.approx(0.3, abs=4 * (0.21 / 4000) ** 0.5)
    assert not shown.values.requires_grad
    assert torch.equal(begun(Apa()).shown_as_real(Batch(x), Batch(fake)).values, x)  # p begins at 0


def test_a_plain_loop_whose_penalty_is_at_what_is_shown_as_real():
    settings = "augment=apa", "augment.p=0.5", "penalty=r1", "optimizer=sgd"
    made, loop = built(*settings), built(*settings)
    iterate(made, 3)
    gan, reals = loop.gan, iter(loop.reals)
    for _ in range(3):
        x, fake = next(reals).values, gan.generator(gan.sample().values)
        shown = torch.empty(len(x), 1, 1, 1, dtype=x.dtype).uniform_(generator=gan.augment.rng) < 0.5
        x = torch.where(shown, fake.detach(), x)
        loss = gan.loss.d_loss(gan.discriminator(x), gan.discriminator(fake.detach()))
        loss = loss + R1().term(gan.discriminator, x, fake.detach())
        descend(gan.optimizer_d, loss)
        descend(gan.optimizer_g, gan.loss.g_loss(None, gan.discriminator(fake)))
    torch.testing.assert_close(weights(made.gan), weights(gan), rtol=1e-10, atol=1e-12)


def test_g_compares_with_real_samples_alone():
    """In `detach` and in `joint`, a relativistic loss of G has the same real scores where D has not moved."""
    gan = built("augment=apa", "augment.p=1", "loss=rpgan", "penalty=[]").gan
    assert isinstance(gan.loss, RpGAN)
    x, fake = Batch(images(5)), gan.generate(gan.sample())
    expected = gan.g_loss(x, fake).loss.item()
    for d, g in (gan.losses(x, fake), gan.losses_of_both(x, fake)):
        assert g.loss.item() == pytest.approx(expected, rel=1e-12)
        assert torch.equal(d.real_scores, d.fake_scores)  # with p = 1, D is told that its fakes are real
    strategies.joint(gan, iter([x]), d_steps=1, g_steps=1)
