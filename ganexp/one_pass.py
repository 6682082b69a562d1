"""The algebra of taking both gradients from one backward pass through the discriminator (Shen et al., CVPR 2021).

A loss here depends on a generated image only through its own score s_i, so

    ∂L_G/∂image_i = (∂L_G/∂s_i ÷ ∂L_D/∂s_i) · ∂L_D/∂image_i

wherever images do not interact inside D: one backward pass of D's loss yields D's gradients and, rescaled per image, G's.
Where they do interact, the same holds if the ratio is one number for the whole batch (minimax, WGAN, BEGAN).

Departure from the paper: the ratio does not exist where ∂L_D/∂s_i = 0 (hinge with a saturated fake, least squares at
s = 0, BEGAN at k_t = 0). Here the pass is seeded with c_i = ∂L_D/∂s_i where |c_i| ≥ τ and with τ elsewhere, and rescaled
by (∂L_G/∂s_i) / seed_i. τ lies far below rounding, so D's gradient stays what it was and G's is right to rounding, with
no branch and no fallback. A uniform ratio is kept uniform: only if *all* |c_i| lie below τ is the pass seeded with
their pattern at the height τ.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ganexp.losses import Loss
from ganexp.streams import undisturbed

TAU = {torch.float64: 1e-30, torch.float32: 1e-20, torch.bfloat16: 1e-20}


@dataclass(frozen=True)
class ByScore:
    """Both losses, and their derivatives by the scores, `(B,)` each."""

    d_loss: Tensor
    g_loss: Tensor
    d_real: Tensor
    seed: Tensor
    scale: Tensor


@torch.enable_grad()
def by_scores(loss: Loss, real: Tensor, fake: Tensor) -> ByScore:
    """Differentiate both losses by the scores alone.

    Raises:
        ValueError: The scores are of a type too narrow for τ, such as float16.
    """
    if fake.dtype not in TAU:
        raise ValueError(f"one_stage needs float32, float64 or bfloat16 scores, not {fake.dtype}")
    r, f = real.detach().requires_grad_(), fake.detach().requires_grad_()
    d_loss, g_loss = loss.d_loss(r, f), loss.g_loss(r.detach(), f)
    d_real, d_fake = torch.autograd.grad(d_loss, (r, f))
    (g_fake,) = torch.autograd.grad(g_loss, f)
    seeds = _uniform_seeds if loss.uniform_ratio else _seeds_by_image
    seed, scale = seeds(d_fake, g_fake, TAU[fake.dtype])
    return ByScore(d_loss.detach(), g_loss.detach(), d_real, seed, scale)


def _seeds_by_image(d_fake: Tensor, g_fake: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    seed = torch.where(d_fake.abs() >= tau, d_fake, tau)
    return seed, g_fake / seed


def _uniform_seeds(d_fake: Tensor, g_fake: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Return seeds in proportion to ∂L_D/∂s, and the one ratio, taken where it is known best."""
    height = d_fake.abs().amax()
    pattern = torch.where(height > 0, d_fake / height, 1)
    seed = torch.where(height >= tau, d_fake, tau * pattern)
    largest = seed.abs().argmax(keepdim=True)
    return seed, (g_fake.gather(0, largest) / seed.gather(0, largest)).expand_as(seed)


def refuse_coupled_images(discriminator: nn.Module, loss: Loss, x: Tensor) -> None:
    """Refuse a discriminator in which images interact, unless the loss's ratio is the same for all of them.

    Tried by autograd: the gradient of one image's score by another image must be zero. The discriminator's buffers and the
    random streams are left as they were.

    Args:
        discriminator: In the mode in which it is trained; batch norm in evaluation mode couples nothing.
        loss: What its scores are for.
        x: A batch `(B, …)` to try it on.

    Raises:
        ValueError: One score depends on several images.
    """
    if loss.uniform_ratio or not coupled(discriminator, x):
        return
    raise ValueError(
        f"one_stage with {type(loss).__name__} is exact only for a discriminator that scores each image by itself, and this "
        "one's depend on other images of the batch (by batch norm, minibatch statistics or the like): take strategy=joint, "
        "or a discriminator without it"
    )


def coupled(discriminator: nn.Module, x: Tensor) -> bool:
    """Say whether the score of an image depends on other images of its batch."""
    images = x.detach().clone().requires_grad_()
    with undisturbed(x.device), _buffers_kept(discriminator), torch.enable_grad():
        scores = discriminator(images)
        by_first, by_last = (
            torch.autograd.grad(scores[i], images, retain_graph=True, materialize_grads=True)[0] for i in (0, -1)
        )
    return bool(by_first[1:].any() or by_last[:-1].any())


@contextmanager
def _buffers_kept(network: nn.Module) -> Iterator[None]:
    """Put a network's buffers back at the end: running statistics, and what spectral norm remembers."""
    slots = [(m, name, b, b.clone()) for m in network.modules() for name, b in m._buffers.items() if b is not None]
    try:
        yield
    finally:
        for module, name, buffer, kept in slots:
            buffer.copy_(kept)
            module._buffers[name] = buffer
