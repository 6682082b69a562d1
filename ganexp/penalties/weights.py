"""Penalties on D's weights, and weight clipping."""

from typing import Annotated, Any

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import _SpectralNorm

from ganexp.batch import Batch, Discriminator, read
from ganexp.penalties.base import Penalty
from ganexp.penalties.lazy import Lazy
from ganexp.ranges import checked

SQUARINGS = 12


class Spectral(Lazy):
    """λ/2 · Σ σ(W)² over the layers of D (Yoshida & Miyato 2017, equation 3), σ(W) the largest singular value; λ is `weight`.

    Departure: σ is exact for the current weights, whereas the authors refine vectors by one power iteration per update. As in
    their method, the singular vectors are constants: the gradient is exact, but its own derivative, in `unrolled`, lacks the
    part of the vectors. Discriminators with spectral norm are refused.
    """

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 0.01, every: Annotated[int, Ge(1)] = 1) -> None:
        super().__init__(weight=weight, every=every)

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor | None:
        if read(discriminator, lambda network: any(isinstance(module, _SpectralNorm) for module in network.modules())):
            raise ValueError(
                "spectral norm holds at 1 what spectral regularisation would lower: choose discriminator.spectral_norm=false, "
                "or another penalty"
            )
        squares = [largest_square(matrix) for matrix in matrices(discriminator)]
        return 0.5 * torch.stack(squares).sum() if squares else None


class Orthogonal(Lazy):
    """β · Σ ‖WWᵀ ⊙ (1 − I)‖²_F over the layers of D (Brock et al. 2019, BigGAN, section 3.1); β is `weight`.

    The rows of W are the filters; their inner products with one another are penalised, but not their norms. Departures: BigGAN
    applies it to G; with spectral norm, the weights are the normalised ones.
    """

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 1e-4, every: Annotated[int, Ge(1)] = 1) -> None:
        super().__init__(weight=weight, every=every)

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor | None:
        products = [matrix @ matrix.T for matrix in matrices(discriminator)]
        squares = [(product - product.diag().diag()).square().sum() for product in products]
        return torch.stack(squares).sum() if squares else None


class WeightClipping(Penalty):
    """Clip every trainable weight of D to [-bound, bound] after each D step (Arjovsky et al. 2017, algorithm 1)."""

    demands = frozenset({"small weights"})
    moves_weights = True

    @checked
    def __init__(self, *, bound: Annotated[float, Gt(0)] = 0.01) -> None:
        self.bound = bound

    @torch.no_grad()
    def constrain(self, discriminator: nn.Module) -> None:
        weights: list[Tensor] = [p for p in discriminator.parameters() if p.requires_grad]
        torch._foreach_clamp_min_(weights, -self.bound)
        torch._foreach_clamp_max_(weights, self.bound)


def largest_square(matrix: Tensor) -> Tensor:
    """Return σ², a scalar, of the largest singular value σ of a matrix.

    It is tr(AP)/tr(P) for the smaller Gram matrix A, where P is A to the power 2¹², computed by repeated squaring without a
    graph: a projection onto the eigenvector of the largest eigenvalue, or of several equal ones. Unlike an SVD, products do not
    make the host wait. Other eigenvalues are weighted by their 4096th power, which lowers σ² in n dimensions by less than n/10⁴
    of it, and by nothing if the next largest σ is 1 % lower.
    """
    rows, columns = matrix.shape
    gram = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    power = gram.detach()
    tiny = torch.finfo(power.dtype).tiny  # a matrix of zeros stays one
    for _ in range(SQUARINGS):
        power = power / power.trace().clamp_min(tiny)
        power = power @ power
    return (gram * power).sum() / power.trace().clamp_min(tiny)


def matrices(discriminator: Discriminator) -> list[Tensor]:
    """Return the weight of every layer that is trained, with a graph, `(outputs, inputs)`.

    A layer is a module with a `weight` of two or more dimensions. For a convolution, all dimensions but the outputs are
    flattened, as in spectral norm, and all groups are treated alike. A parametrised weight is the effective one, for example
    divided by its spectral norm, without another power iteration.

    The discriminator is a module, or a function around one with a method `read`.
    """
    return read(discriminator, _of_layers)


def _of_layers(network: nn.Module) -> list[Tensor]:
    layers: dict[Tensor, nn.Module] = {}  # by weight, which layers may share
    for layer in network.modules():
        weight = _weight(layer)
        if weight is not None and weight.dim() > 1 and weight.requires_grad:
            layers[weight] = layer
    return [(w.transpose(0, 1) if isinstance(layer, _ConvTransposeNd) else w).flatten(1) for w, layer in layers.items()]


def _weight(layer: nn.Module) -> Tensor | None:
    """Return the effective weight of a layer, without changing the state of its parametrisation."""
    if not parametrize.is_parametrized(layer, "weight"):
        if "weight" not in layer._parameters and isinstance(getattr(layer, "weight", None), Tensor):
            raise ValueError(
                f"the weight of a {type(layer).__name__} is made by a hook: take spectral_norm or weight_norm of "
                "torch.nn.utils.parametrizations, whose weights can be penalised"
            )
        return layer._parameters.get("weight")
    parametrization: Any = layer.parametrizations["weight"]  # type: ignore[index]
    training = [module for module in parametrization.modules() if module.training]
    for module in training:
        module.training = False
    try:
        return parametrization()
    finally:
        for module in training:
            module.training = True
