"""Top-k: the share that counts, and a plain loop that sorts by hand."""

# ruff: noqa: B023 (functions within a loop are called where they stand)

import numpy as np
import pytest
import torch

from ganexp.losses import RpGAN, SoftmaxGAN
from ganexp.strategies import detach, joint
from ganexp.streams import stream
from ganexp.wrappers import TopK
from tests.tiny import BATCH, CASES, LATENT, descend, real_batches, state, tiny_gan, train


def test_k_falls_by_gamma_down_to_nu():
    wrapped = TopK(detach, nu=0.25, gamma=0.5, every=3)
    seen = []
    for wrapped.passed["iterations"] in range(10):
        seen.append(wrapped.k(32, wrapped.passed["iterations"]))
    assert seen == [32, 32, 32, 16, 16, 16, 8, 8, 8, 8]
    assert TopK(detach, nu=0.01).k(1, 0) == 1
    wrapped.passed["iterations"] = 10**6
    assert wrapped.k(2, wrapped.passed["iterations"]) == 1  # never none


def test_objectives_are_those_of_the_best_by_hand():
    wrapped = TopK(detach, nu=0.5, gamma=0.5, every=1)
    wrapped.passed["iterations"] = 1
    rng = np.random.default_rng(0)
    r, f = rng.normal(size=6), rng.normal(size=6)
    real, fake = torch.tensor(r), torch.tensor(f, requires_grad=True)
    best = np.argsort(f)[-3:]
    pairs = wrapped.of_best(RpGAN()).g_loss(real, fake)
    assert pairs.item() == pytest.approx(np.log1p(np.exp(r[best] - f[best])).mean(), rel=1e-14)
    pairs.backward()
    assert set(fake.grad.nonzero().flatten().tolist()) == set(best.tolist())
    worst = np.sort(f)[:3]  # SoftmaxGAN's best: a low score means real
    softmax = wrapped.of_best(SoftmaxGAN()).g_loss(real, fake.detach())
    scores = np.concatenate([r, worst])
    assert softmax.item() == pytest.approx(scores.mean() + np.log(np.exp(-scores).sum()), rel=1e-14)


def plain_topk(loss, iterations, ks, *, simultaneous):
    """A textbook loop of detach, or of joint, whose G sorts the scores of its fakes."""
    gan, reals, latents = tiny_gan(CASES[loss]), real_batches(), stream(3, "latents")
    G, D, opt_g, opt_d = gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d
    for i in range(iterations):
        x, z = next(reals), torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=latents)

        def descend_d():
            descend(opt_d, gan.loss.d_loss(D(x), D(G(z).detach())))

        def g_gradients():
            opt_g.zero_grad()
            scores = D(G(z))
            best = sorted(range(BATCH), key=lambda j: scores[j].item())[BATCH - ks[i] :]
            gan.loss.g_loss(D(x)[best] if loss == "rpgan" else D(x), torch.stack([scores[j] for j in best])).backward()

        if simultaneous:
            g_gradients()
            descend_d()
        else:
            descend_d()
            g_gradients()
        opt_g.step()
    return state(gan)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [detach, joint])
def test_a_plain_loop_agrees(strategy):
    for loss in ("nonsaturating", "hinge", "rpgan", "ragan"):
        found = train(tiny_gan(CASES[loss]), TopK(strategy, nu=0.3, gamma=0.6, every=2), 6)
        by_hand = plain_topk(loss, 6, [6, 6, 4, 4, 2, 2], simultaneous=strategy is joint)
        torch.testing.assert_close(found, by_hand, rtol=1e-11, atol=1e-13)
