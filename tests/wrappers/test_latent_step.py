"""The step of latents: a plain loop with functional_call and double backward, and finite differences through it."""

import pytest
import torch

from ganexp import Prior
from ganexp.strategies import detach
from ganexp.streams import stream
from ganexp.wrappers import LatentStep
from tests.tiny import BATCH, CASES, LATENT, derivative, descend, real_batches, state, tiny_gan, train
from tests.wrappers.latent_steps import ALPHA, BETA, moved


def plain(loss, *, natural, through):
    gan, reals, latents = tiny_gan(CASES[loss]), real_batches(), stream(3, "latents")
    G, D = gan.generator, gan.discriminator
    for _ in range(4):
        x, z = next(reals), torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=latents)
        z = moved(G, D, z, natural=natural, through=through, sign=-1 if loss == "ebgan" else 1)
        fake = G(z)
        descend(gan.optimizer_d, gan.loss.d_loss(D(x), D(fake.detach())))
        descend(gan.optimizer_g, gan.loss.g_loss(None, D(fake)))
    return state(gan)


@pytest.mark.slow
@pytest.mark.parametrize("natural", [True, False])
@pytest.mark.parametrize("through", [True, False])
def test_a_plain_loop_agrees(natural, through):
    for loss in ("nonsaturating", "ebgan"):
        found = train(tiny_gan(CASES[loss]), LatentStep(detach, alpha=ALPHA, beta=BETA, natural=natural, through=through))
        torch.testing.assert_close(found, plain(loss, natural=natural, through=through), rtol=1e-11, atol=1e-13)


def test_gs_gradient_through_the_step_is_that_of_finite_differences():
    gan = tiny_gan(CASES["nonsaturating"])
    step = LatentStep(detach, alpha=ALPHA, beta=BETA)
    weight, position = next(gan.generator.parameters()), gan.prior.rng.get_state()

    def loss():
        gan.prior.rng.set_state(position)
        return gan.g_loss(None, gan.generate(step.moved(gan, gan.sample))).loss

    (by_weight,) = torch.autograd.grad(loss(), weight)
    direction = torch.randn_like(weight)
    assert derivative(loss, [weight], [direction]) == pytest.approx((by_weight * direction).sum().item(), rel=1e-7)


def test_the_step_moves_no_state_and_stays_in_the_priors_range():
    gan = tiny_gan(CASES["nonsaturating"], wrap=lambda d: torch.nn.Sequential(torch.nn.BatchNorm1d(2).double(), d))
    gan.prior = Prior(LATENT, "uniform", seed=3, dtype=torch.float64)
    before = [b.clone() for b in gan.discriminator.buffers()]
    with torch.no_grad():
        z = LatentStep(detach, alpha=1e9).moved(gan, gan.sample).values
    assert all(torch.equal(a, b) for a, b in zip(before, gan.discriminator.buffers(), strict=True))
    assert not z.requires_grad
    assert z.abs().max() == 1
