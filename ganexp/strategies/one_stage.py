"""Simultaneous updates by a single backward pass of the fakes through D (Shen et al., CVPR 2021).

A loss here depends on a generated image only through its own score s_i, so

    ∂L_G/∂image_i = (∂L_G/∂s_i ÷ ∂L_D/∂s_i) · ∂L_D/∂image_i

wherever images do not interact inside D: one backward pass of D's loss yields D's gradients and, rescaled per image, G's.
Where they do interact, or D scores several places of an image, the same holds if the ratio is one number for the whole batch
(minimax, WGAN, BEGAN).

Departure from the paper: the ratio does not exist where ∂L_D/∂s_i = 0 (hinge with a saturated fake, least squares at
s = 0, BEGAN at k_t = 0). Here the pass is seeded with c_i = ∂L_D/∂s_i where |c_i| ≥ τ and with τ elsewhere, and rescaled
by (∂L_G/∂s_i) / seed_i. τ lies far below rounding, so D's gradient stays what it was and G's is right to rounding, with
no branch and no fallback. A uniform ratio is kept uniform: only if *all* |c_i| lie below τ is the pass seeded with
their pattern at the height τ.
"""

from collections.abc import Iterator
from weakref import WeakSet

import torch
from torch import Tensor, nn

from ganexp.batch import Batch, Gradients, Objective
from ganexp.gan import GAN
from ganexp.losses import Loss
from ganexp.networks.coupling import examine
from ganexp.strategies.simultaneous import Simultaneous

TAU = {torch.float64: 1e-30, torch.float32: 1e-20, torch.bfloat16: 1e-20}


class OneStage(Simultaneous):
    """The same updates as `joint` at a lower cost. Trace: `z G r f DG+`."""

    equals = "joint"
    needs = ("scores",)
    learns_through_d_loss = True
    tries_discriminator = True

    def __init__(self) -> None:
        self._scoring_alone: WeakSet[nn.Module] = WeakSet()
        """Discriminators that have passed `refuse`, which waits for the device and is therefore called once for each."""

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        refuse_further_numbers(gan.loss)
        x, fake = next(reals), gan.generate(gan.sample())
        if gan.discriminator not in self._scoring_alone and not fake.values.is_meta:
            self.refuse(gan.discriminator, gan.loss, x)
            self._scoring_alone.add(gan.discriminator)
        d, g = gan.losses(x, fake)
        gan.update_both(d, g, gradients_in_one_pass(gan, fake, d, g))

    def refuse(self, discriminator: nn.Module, loss: Loss, x: Batch) -> None:
        """Refuse a D in which images interact, unless the loss has one ratio for all: the rescaling would not be exact.

        D should be in training mode: batch norm in evaluation mode couples nothing.
        """
        refuse_further_numbers(loss)
        if loss.uniform_ratio or not examine(discriminator, Batch.of(x)).couples:
            return
        raise ValueError(
            f"one_stage with {type(loss).__name__} is exact only for a discriminator that scores each image by itself, and "
            "the scores of this one depend on other images of the batch (by batch norm, minibatch statistics or the like): "
            "choose strategy=joint, or a discriminator without it"
        )


def gradients_in_one_pass(gan: GAN, fake: Batch, d: Objective, g: Objective) -> tuple[Gradients, Gradients]:
    """Take the gradients of both objectives by one backward pass of the fakes through D."""
    assert d.real_scores is not None
    assert d.fake_scores is not None
    assert g.fake_scores is not None
    with gan.phase("d"):
        by_real, by_fake = torch.autograd.grad(d.loss, (d.real_scores, d.fake_scores))
        (g_by_fake,) = torch.autograd.grad(g.loss, g.fake_scores)
        refuse_ratios_of_places(gan.loss, by_fake)
        seeds, scales = seeds_and_scales(gan.loss, by_fake.flatten(), g_by_fake.flatten())
        seeds, scales = seeds.view_as(by_fake), scales.view(len(by_fake), -1)[:, 0]
        parameters = gan.d_parameters
        *own, by_image = torch.autograd.grad(
            (d.real_scores, d.fake_scores),
            [*parameters, fake.values],
            (by_real, seeds),
            allow_unused=True,
            retain_graph=d.penalty is not None,
        )
        d_gradients: Gradients = tuple(own)
        if d.penalty is not None:
            d_gradients = _sums(d_gradients, torch.autograd.grad(d.penalty, parameters, allow_unused=True))
    with gan.phase("g"):
        scales = gan.processes.own(scales).view(-1, *[1] * (fake.values.dim() - 1))
        seeded = scales * by_image
        further = g.further
        if further is None:
            return d_gradients, torch.autograd.grad(fake.values, gan.g_parameters, seeded, allow_unused=True)
        ends, weights = (fake.values, further), (seeded, torch.ones_like(further))
        return d_gradients, torch.autograd.grad(ends, gan.g_parameters, weights, allow_unused=True)


def seeds_and_scales(loss: Loss, d_by_fake: Tensor, g_by_fake: Tensor) -> tuple[Tensor, Tensor]:
    """Return what to seed the fakes' scores with, and what to rescale each image's gradient by, `(B,)` each.

    Args:
        loss: The loss, whose ratio may be uniform.
        d_by_fake: ∂L_D/∂s, `(B,)`.
        g_by_fake: ∂L_G/∂s, `(B,)`.
    """
    if d_by_fake.dtype not in TAU:
        raise ValueError(f"one_stage needs float32, float64 or bfloat16 scores, not {d_by_fake.dtype}")
    tau = TAU[d_by_fake.dtype]
    if loss.uniform_ratio:
        return _uniform_ratio(d_by_fake, g_by_fake, tau)
    seeds = torch.where(d_by_fake.abs() >= tau, d_by_fake, tau)
    return seeds, g_by_fake / seeds


def _uniform_ratio(d_by_fake: Tensor, g_by_fake: Tensor, tau: float) -> tuple[Tensor, Tensor]:
    """Return seeds in proportion to ∂L_D/∂s, and the uniform ratio, computed at the largest seed."""
    height = d_by_fake.abs().amax()
    pattern = torch.where(height > 0, d_by_fake / height, 1)
    seeds = torch.where(height >= tau, d_by_fake, tau * pattern)
    largest = seeds.abs().argmax(keepdim=True)
    return seeds, (g_by_fake.gather(0, largest) / seeds.gather(0, largest)).expand_as(seeds)


def refuse_further_numbers(loss: Loss) -> None:
    """Refuse a loss that reads more than one number per image: each of them would need a ratio of its own."""
    if loss.reads:
        raise ValueError(
            f"one_stage is exact only for losses of one score per image, and {type(loss).__name__} also reads D's "
            f"{loss.reads}: take strategy=joint"
        )


def refuse_ratios_of_places(loss: Loss, scores: Tensor) -> None:
    """Refuse a map of scores, whose places depend on one image, unless the loss has one ratio for all of them."""
    if scores.dim() > 1 and scores[0].numel() > 1 and not loss.uniform_ratio:
        raise ValueError(
            f"one_stage with {type(loss).__name__} is exact only for one score per image, and this discriminator scores "
            f"{scores[0].numel()} places of each: take strategy=joint, or a discriminator that returns one score"
        )


def _sums(first: Gradients, second: Gradients) -> Gradients:
    return tuple(b if a is None else a if b is None else a + b for a, b in zip(first, second, strict=True))
