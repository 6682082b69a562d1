"""Unrolled GAN: G is trained against D after k simulated steps (Metz et al. 2017)."""

from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import normalize
from torch.nn.utils.parametrizations import _SpectralNorm

from ganexp.batch import Batch, Discriminator, Objective
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.strategies.simultaneous import Simultaneous


class Unrolled(Simultaneous):
    """G descends its loss after `k` differentiable D steps, which are then undone (equations 10, 11).

    Both networks move from where they were, as in `joint`, which this is for k = 0. Trace: `z G r f DG+`. Departure: the
    inner steps are plain gradient descent, as in the paper's equations; its experiments used Adam.

    With torch's parametrisation `spectral_norm` in D, each inner step takes the singular vectors as constants, as D's own
    update does, and G's gradient passes through the power iterations that refine them. It does not pass through the vectors of
    the older `torch.nn.utils.spectral_norm`, nor through those of the penalty `Spectral`.

    Args:
        k: Inner steps of D, on the batch at hand.
        rate: Size of the inner steps.
    """

    needs = ("discriminator",)
    looks_ahead = True
    differentiates_gradients = True
    learns_through_d_loss = True

    on_device: ClassVar = {"rate": None}

    @checked
    def __init__(self, *, k: Annotated[int, Ge(0)] = 5, rate: Annotated[float, Gt(0)] = 0.01) -> None:
        self.k = k
        self.rate: float | Tensor = rate

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        x, fake = next(reals), gan.generate(gan.sample())
        gan.update_both(gan.d_loss(x, fake.detach()), self.g_loss(gan, x, fake))

    def g_step(self, gan: GAN, reals: Iterator[Batch]) -> None:
        """Update G alone; D's inner steps need a real batch with any loss."""
        x, fake = next(reals), gan.generate(gan.sample())
        gan.update_g(self.g_loss(gan, x, fake))

    def g_loss(self, gan: GAN, x: Batch, fake: Batch) -> Objective:
        """Form G's objective against D after the inner steps."""
        with gan.phase("g"):
            ahead = unroll(gan.discriminator, lambda d: _d_loss(gan, d, x, fake), k=self.k, rate=self.rate)
            real_scores = gan.score(x, ahead) if gan.loss.g_needs_real else None
            fake_scores = gan.score(fake, ahead)
            g = gan.g_objective(real_scores, fake_scores, fake, ahead)
            gan.need_second_derivatives("unrolled", [g.loss])
            return g


def _d_loss(gan: GAN, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
    """Form D's loss, with its penalty, for another discriminator; it keeps G's graph."""
    x = gan.shown_as_real(x, fake)
    real_scores, fake_scores = gan.score(x, discriminator), gan.score(fake, discriminator)
    loss = gan.loss.d_loss(real_scores, fake_scores)
    penalty = gan.penalty_term(discriminator, x, fake, real_scores, fake_scores)
    return loss if penalty is None else loss + penalty


class Ahead:
    """A discriminator with other weights, as a function from images to scores; the module itself does not change.

    Args:
        discriminator: The module.
        tensors: The tensors to use instead of its own, by the name of each parameter and buffer.
        matrices: The weights likewise, if spectral norm's power iterations are to be differentiated. Torch does not
            differentiate them, so that gradients of later passes would lack the part that flows through the singular vectors.
    """

    def __init__(
        self, discriminator: nn.Module, tensors: dict[str, Tensor], *, matrices: dict[str, Tensor] | None = None
    ) -> None:
        self.discriminator = discriminator
        self.tensors = tensors
        self.matrices = matrices or {}

    def __call__(self, images: Tensor, *conditions: Tensor) -> Tensor:
        """Map images, and what they are conditioned on, to scores `(B,)`."""
        norms = [*self._refined()] if self.matrices else []
        for norm in norms:
            norm.training = False  # which would iterate once more
        try:
            return functional_call(self.discriminator, self.tensors, (images, *conditions), tie_weights=False)
        finally:
            for norm in norms:
                norm.training = True

    def _refined(self) -> Iterator[nn.Module]:
        """Refine the singular vectors of each spectral norm as its own pass does, but with a graph, and yield the module."""
        for name, norm in self.discriminator.named_modules():
            left, right, weight = f"{name}._u", f"{name}._v", f"{name.removesuffix('.0')}.original"
            if isinstance(norm, _SpectralNorm) and norm.training and left in self.tensors and weight in self.matrices:
                matrix = norm._reshape_weight_to_matrix(self.matrices[weight])
                for _ in range(norm.n_power_iterations):
                    u = normalize(torch.mv(matrix, self.tensors[right]), dim=0, eps=norm.eps)
                    v = normalize(torch.mv(matrix.T, u), dim=0, eps=norm.eps)
                    self.tensors |= {left: u, right: v}
                yield norm

    def read(self, what: Callable[[nn.Module], list[Tensor]]) -> list[Tensor]:
        """Apply a function to the module with the other weights, and return its result."""
        tensors = {f"network.{name}": tensor for name, tensor in self.tensors.items()}
        result: list[Tensor] = functional_call(_Reader(self.discriminator, what), tensors, (), tie_weights=False)
        return result


class _Reader(nn.Module):
    """A module whose forward pass applies a function to another module."""

    def __init__(self, network: nn.Module, what: Callable[[nn.Module], list[Tensor]]) -> None:
        super().__init__()
        self.network = network
        self.what = what

    def forward(self) -> list[Tensor]:
        return self.what(self.network)


def unroll(
    discriminator: nn.Module, objective: Callable[[Discriminator], Tensor], *, k: int, rate: float | Tensor
) -> Discriminator:
    """Return the discriminator after `k` plain gradient steps of size `rate`, as a function (equations 7, 8).

    It maps images to scores, and can be differentiated through. The module itself and its buffers do not change. Departure:
    constraints on D's weights, such as clipping, are not applied to the steps, since that would cut the gradient.

    Args:
        discriminator: The module before the steps; frozen parameters, and those that no score depends on, do not move.
        objective: D's loss, as a function of a discriminator.
        k: The number of steps.
        rate: Their size.
    """
    slots, buffers = _slots(discriminator, "_parameters"), _slots(discriminator, "_buffers")
    weights = {p: p for p in slots.values() if p.requires_grad}  # by the parameter that each starts from
    buffers = {name: buffer.clone() for name, buffer in buffers.items()}

    def named(moved: dict[Tensor, Tensor]) -> dict[str, Tensor]:
        return {name: _laid_out(moved.get(p, p)) for name, p in slots.items()}

    for _ in range(k):
        views = {p: w.view_as(w) for p, w in weights.items()}  # singular vectors of w are constants in D's update
        ahead = Ahead(discriminator, named(views) | buffers, matrices=named(weights))
        gradients = torch.autograd.grad(objective(ahead), list(views.values()), create_graph=True, allow_unused=True)
        weights = {p: w if g is None else w - rate * g for (p, w), g in zip(weights.items(), gradients, strict=True)}
        buffers = {name: ahead.tensors[name] for name in buffers}
    return Ahead(discriminator, named(weights) | buffers, matrices=named(weights))


def _laid_out(weight: Tensor) -> Tensor:
    """Return a weight in a layout in which torch can differentiate its convolution twice.

    In float64 on a CPU, torch refuses channels_last: "slow_conv2d: grad_weight must be contiguous".
    """
    return weight.contiguous() if weight.dtype == torch.float64 else weight


def apart(discriminator: nn.Module) -> Ahead:
    """Return a copy of a discriminator as a function from images to scores, which later updates do not change.

    It can be differentiated with respect to images, even after the discriminator has moved, but not with respect to weights.
    """
    tensors = _slots(discriminator, "_parameters") | _slots(discriminator, "_buffers")
    return Ahead(discriminator, {name: tensor.detach().clone() for name, tensor in tensors.items()})


def _slots(network: nn.Module, kind: str) -> dict[str, Tensor]:
    """Return the parameters or buffers of a network by name, those of a module that is registered twice under one name.

    Given both names of such a module, `functional_call` would swap its weights twice, and at the end restore those of the
    first swap.
    """
    modules = network.named_modules()  # each module once
    held = ((f"{prefix}.{name}" if prefix else name, t) for prefix, m in modules for name, t in getattr(m, kind).items())
    return {name: tensor for name, tensor in held if tensor is not None}
