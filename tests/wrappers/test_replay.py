"""Replay: a plain loop with a Python list for a buffer; labels go along; the streams of others stay where they are."""

# ruff: noqa: B023 (functions within a loop are called where they stand)

import pytest
import torch

from ganexp.batch import Batch
from ganexp.strategies import detach, joint
from ganexp.streams import stream
from ganexp.wrappers import Replay
from tests.tiny import BATCH, CASES, LATENT, descend, real_batches, state, tiny_gan, train

SIZE, OTHERS = 8, 2


def plain(iterations, *, simultaneous):
    """A textbook loop of detach, or of joint, whose D sees fakes from a list."""
    gan, reals, latents = tiny_gan(CASES["nonsaturating"]), real_batches(), stream(3, "latents")
    G, D, buffer = gan.generator, gan.discriminator, []
    for i in range(iterations):
        x, z = next(reals), torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=latents)
        shown = list(G(z).detach())
        if len(buffer) < SIZE:
            buffer = (buffer + shown)[:SIZE]
        else:
            rng = stream(3, "replay", index=i)
            taken, replaced = (
                torch.rand(SIZE, dtype=torch.float64, generator=rng).argsort(descending=True)[:OTHERS].tolist()
                for _ in range(2)
            )
            last, earlier = shown[BATCH - OTHERS :], [buffer[j] for j in taken]
            shown = shown[: BATCH - OTHERS] + earlier
            for j, one in zip(replaced, last, strict=True):
                buffer[j] = one

        def descend_d():
            descend(gan.optimizer_d, gan.loss.d_loss(D(x), D(torch.stack(shown))))

        if not simultaneous:
            descend_d()
        gan.optimizer_g.zero_grad()
        gan.loss.g_loss(None, D(G(z))).backward()
        if simultaneous:
            descend_d()
        gan.optimizer_g.step()
    return state(gan), buffer


@pytest.mark.parametrize("strategy", [detach, joint])
def test_a_plain_loop_agrees(strategy):
    wrapped = Replay(strategy, size=SIZE, share=OTHERS / BATCH)
    found = train(tiny_gan(CASES["nonsaturating"]), wrapped, 7)
    by_hand, buffer = plain(7, simultaneous=strategy is joint)
    torch.testing.assert_close(found, by_hand, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(wrapped.kept[0], torch.stack(buffer), rtol=1e-12, atol=1e-14)


def test_labels_go_along_and_a_share_of_one_shows_earlier_fakes_alone():
    gan, wrapped = tiny_gan(CASES["nonsaturating"]), Replay(detach, size=12, share=1.0)
    position = gan.prior.rng.get_state()
    for draw in range(5):
        values = torch.arange(6 * draw, 6 * draw + 6, dtype=torch.float64)
        shown = wrapped.mixed(gan, Batch(values[:, None].expand(6, 2), (values.long(),)))
        assert torch.equal(shown.values[:, 0].long(), shown.conditions[0])
        assert len(set(shown.conditions[0].tolist())) == 6
        assert (shown.conditions[0].max() < 6 * draw) == (draw >= 2)
    assert torch.equal(gan.prior.rng.get_state(), position)


def test_a_buffer_smaller_than_what_is_drawn_is_refused():
    with pytest.raises(ValueError, match=r"size=2 is less than the 3 fakes of a batch"):
        Replay(detach, size=2)(tiny_gan(CASES["hinge"]), real_batches(), d_steps=1, g_steps=1)
