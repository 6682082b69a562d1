"""G against the discriminator of tomorrow (Metz et al. 2017)."""

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
        """Update G alone; the inner steps of D need a real batch, whatever the loss."""
        x, fake = next(reals), gan.generate(gan.sample())
        gan.update_g(self.g_loss(gan, x, fake))

    def g_loss(self, gan: GAN, x: Batch, fake: Batch) -> Objective:
        """Form G's objective against the discriminator that the inner steps lead to."""
        with gan.phase("g"):
            ahead = unroll(gan.discriminator, lambda d: _d_loss(gan, d, x, fake), k=self.k, rate=self.rate)
            real_scores = gan.score(x, ahead) if gan.loss.g_needs_real else None
            fake_scores = gan.score(fake, ahead)
            g = gan.g_objective(real_scores, fake_scores, fake, ahead)
            gan.need_second_derivatives("unrolled", [g.loss])
            return g


def _d_loss(gan: GAN, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor:
    """Form D's loss for another discriminator, penalty included, with G's graph in it."""
    x = gan.shown_as_real(x, fake)
    real_scores, fake_scores = gan.score(x, discriminator), gan.score(fake, discriminator)
    loss = gan.loss.d_loss(real_scores, fake_scores)
    penalty = gan.penalty_term(discriminator, x, fake, real_scores, fake_scores)
    return loss if penalty is None else loss + penalty


class Ahead:
    """A discriminator with other weights, as a function from images to scores; the discriminator itself stays as it is.

    Args:
        discriminator: The module.
        tensors: The tensors to use instead, by the name of each place in it that holds one.
        matrices: The weights likewise, where spectral norm's power iterations are to be differentiated. Torch's own are not,
            so that the slope of what a later pass computes would lack what comes from the vectors.
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
        """Return what a function reads in the module while it has the other weights."""
        tensors = {f"network.{name}": tensor for name, tensor in self.tensors.items()}
        read: list[Tensor] = functional_call(_Reader(self.discriminator, what), tensors, (), tie_weights=False)
        return read


class _Reader(nn.Module):
    """A module whose forward pass reads something in another module."""

    def __init__(self, network: nn.Module, what: Callable[[nn.Module], list[Tensor]]) -> None:
        super().__init__()
        self.network = network
        self.what = what

    def forward(self) -> list[Tensor]:
        return self.what(self.network)


def unroll(
    discriminator: nn.Module, objective: Callable[[Discriminator], Tensor], *, k: int, rate: float | Tensor
) -> Discriminator:
    """Return the discriminator that `k` plain gradient steps of size `rate` lead to, as a function (equations 7, 8).

    It maps images to scores, and can be differentiated through.

    The discriminator itself is left as it is, its buffers included. Departure: constraints on D's weights, such as
    clipping, are not applied to the steps, since that would cut the gradient.

    Args:
        discriminator: Where the steps begin; frozen parameters stay, and so do those that no score depends on.
        objective: D's loss, as a function of any discriminator.
        k: How many steps.
        rate: Their size.
    """
    slots, buffers = _slots(discriminator, "_parameters"), _slots(discriminator, "_buffers")
    weights = {p: p for p in slots.values() if p.requires_grad}  # keyed by the parameter that each began as
    buffers = {name: buffer.clone() for name, buffer in buffers.items()}

    def named(moved: dict[Tensor, Tensor]) -> dict[str, Tensor]:
        return {name: _laid_out(moved.get(p, p)) for name, p in slots.items()}

    for _ in range(k):
        seen = {p: w.view_as(w) for p, w in weights.items()}  # to D's update, singular vectors of w are constants
        ahead = Ahead(discriminator, named(seen) | buffers, matrices=named(weights))
        gradients = torch.autograd.grad(objective(ahead), list(seen.values()), create_graph=True, allow_unused=True)
        weights = {p: w if g is None else w - rate * g for (p, w), g in zip(weights.items(), gradients, strict=True)}
        buffers = {name: ahead.tensors[name] for name in buffers}
    return Ahead(discriminator, named(weights) | buffers, matrices=named(weights))


def _laid_out(weight: Tensor) -> Tensor:
    """Return a weight in the layout in which torch can differentiate its convolution again.

    In float64 on a CPU torch refuses channels_last there: "slow_conv2d: grad_weight must be contiguous".
    """
    return weight.contiguous() if weight.dtype == torch.float64 else weight


def apart(discriminator: nn.Module) -> Ahead:
    """Return a function from images to scores that stays what the discriminator is now, whatever becomes of it.

    No gradient reaches its parameters, and its buffers stay as they are; it can be differentiated with respect to images, even
    after the discriminator has moved.
    """
    kept = _slots(discriminator, "_parameters") | _slots(discriminator, "_buffers")
    return Ahead(discriminator, {name: tensor.detach().clone() for name, tensor in kept.items()})


def _slots(network: nn.Module, kind: str) -> dict[str, Tensor]:
    """Return every place that holds a tensor, once: modules may be registered twice, and parameters shared by modules.

    Given both names of a module that is registered twice, `functional_call` would swap its weights twice, and at the end put
    back those that the second swap had found.
    """
    modules = network.named_modules()  # each module once
    held = ((f"{prefix}.{name}" if prefix else name, t) for prefix, m in modules for name, t in getattr(m, kind).items())
    return {name: tensor for name, tensor in held if tensor is not None}
