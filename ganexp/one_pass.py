"""The algebra of taking both gradients from one backward pass through the discriminator (Shen et al., CVPR 2021).

A loss here depends on a generated image only through its own score s_i, so

    ∂L_G/∂image_i = (∂L_G/∂s_i ÷ ∂L_D/∂s_i) · ∂L_D/∂image_i

wherever images do not interact inside D: one backward pass of D's loss yields D's gradients and, rescaled per image, G's.

Departure from the paper: the ratio does not exist where ∂L_D/∂s_i = 0 (hinge with a saturated fake, least squares at
s = 0, BEGAN at k_t = 0). Here the pass is seeded with c_i = ∂L_D/∂s_i where |c_i| ≥ τ and with τ elsewhere, and rescaled
by (∂L_G/∂s_i) / seed_i. τ lies far below rounding, so D's gradient stays what it was and G's is right to rounding, with
no branch and no fallback.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ganexp.losses import Loss

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
    tau = TAU[fake.dtype]
    seed = torch.where(d_fake.abs() >= tau, d_fake, tau)
    return ByScore(d_loss.detach(), g_loss.detach(), d_real, seed, g_fake / seed)


def refuse_interacting_images(discriminator: nn.Module, loss: Loss) -> None:
    """Refuse a discriminator in which images interact, unless the ratio is the same for all of them.

    Raises:
        ValueError: The discriminator has batch norm and the loss's ratio differs from image to image.
    """
    batch_norm = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in discriminator.modules())
    if batch_norm and not loss.uniform_ratio:
        raise ValueError(
            f"one_stage with {type(loss).__name__} is not exact for a discriminator with batch norm; "
            "take strategy=joint, or a discriminator without it"
        )
