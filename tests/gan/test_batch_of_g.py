"""A batch size of G's own, and real samples of its own: against loops by hand, and nothing where nothing is asked for."""

import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.losses import RaGAN
from ganexp.strategies import g_first_resample, resample
from tests.composing import composed
from tests.small_runs import SMALL
from tests.tiny import BATCH, CASES, descend, iterate, real_batches, state, tiny_gan


@pytest.mark.parametrize("g_batch", [2 * BATCH, 3])
def test_resample_with_a_batch_of_g_s_own_is_the_loop_by_hand(g_batch):
    ours, by_hand = (tiny_gan(CASES["hinge"]) for _ in range(2))
    ours.g_batch = g_batch
    reals, same = real_batches(), real_batches()
    G, D, prior = by_hand.generator, by_hand.discriminator, by_hand.prior
    for _ in range(5):
        resample(ours, reals, d_steps=2, g_steps=2)
        for _ in range(2):
            x, z = next(same), prior.sample(BATCH).values
            descend(by_hand.optimizer_d, (1 - D(x)).relu().mean() + (1 + D(G(z).detach())).relu().mean())
        for _ in range(2):
            descend(by_hand.optimizer_g, -D(G(prior.sample(g_batch).values)).mean())
    torch.testing.assert_close(state(ours), state(by_hand), rtol=1e-10, atol=1e-12)
    assert len(ours.meter.last_fake) == g_batch


@pytest.mark.parametrize("strategy", [resample, g_first_resample])
@pytest.mark.parametrize("new_reals", [False, True])
def test_g_compares_with_real_samples_of_its_own(strategy, new_reals):
    ours, by_hand = (tiny_gan(CASES["ragan"]) for _ in range(2))
    reals, same = real_batches(), real_batches()
    G, D, loss, prior = by_hand.generator, by_hand.discriminator, RaGAN(), by_hand.prior
    for _ in range(4):
        strategy(ours, reals, d_steps=1, g_steps=1, new_reals=new_reals)
        x = next(same)
        x_g = next(same) if new_reals else x
        first, second = (prior.sample(BATCH).values for _ in range(2))
        z_d, z_g = (first, second) if strategy is resample else (second, first)
        for network in "dg" if strategy is resample else "gd":
            if network == "d":
                descend(by_hand.optimizer_d, loss.d_loss(D(x), D(G(z_d).detach())))
            else:
                descend(by_hand.optimizer_g, loss.g_loss(D(x_g).detach(), D(G(z_g))))
    torch.testing.assert_close(state(ours), state(by_hand), rtol=1e-9, atol=1e-11)


def test_the_same_size_changes_no_bit():
    runs = []
    for typed in ([], ["g_batch=5"]):
        made = build(composed(*SMALL, "strategy=resample", "g_steps=2", *typed))
        iterate(made, 4)
        runs.append(state(made.gan))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


BOTH = ["strategy=resample", "g_batch=10", "wrapper=[topk,latent_step]", "wrapper.topk.every=1", "wrapper.topk.gamma=0.7"]


def test_wrappers_move_and_choose_the_fakes_of_g_s_own_batch():
    made = build(composed(*SMALL, *BOTH))
    seen = []
    inside = made.gan.loss.g_loss
    made.gan.loss.g_loss = lambda real, fake: seen.append(len(fake)) or inside(real, fake)
    iterate(made, 3)
    assert seen == [10, 7, 5]


@pytest.mark.parametrize("strategy", ["detach", "joint", "reuse_z", "extragradient"])
def test_one_batch_for_both_networks_has_one_size(strategy):
    with pytest.raises(UserError, match=rf"^g_batch=10 .*strategy={strategy} has both networks learn from one batch"):
        check(composed(*SMALL, f"strategy={strategy}", "g_batch=10"))


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["loss=rpgan", "strategy=resample", "g_batch=10"], "loss=rpgan"),
        (["pack=5", "strategy=resample", "g_batch=4"], "g_batch=4"),
        (["g_batch=0"], "g_batch"),
    ],
)
def test_a_size_that_does_not_fit_is_refused(overrides, key):
    with pytest.raises(UserError, match=f"^{key}"):
        check(composed(*SMALL, *overrides))
