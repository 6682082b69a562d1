"""Penalties on D's weights, whatever the samples are."""

from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.penalties.base import Discriminator
from ganexp.penalties.lazy import Lazy
from ganexp.penalties.matrices import matrices, refuse_spectral_norm
from ganexp.ranges import checked

SQUARINGS = 12


class Spectral(Lazy):
    """λ/2 · Σ σ(W)² over the layers of D (Yoshida & Miyato 2017, equation 3), σ(W) the largest singular value; λ is `weight`.

    Departure: σ is that of the current weights, whereas the authors keep vectors that one power iteration per update refines.
    As in their method, the singular vectors are constants: the gradient is exact, but `unrolled`, which differentiates it, does
    not see the vectors change. Discriminators with spectral norm are refused.
    """

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 0.01, every: Annotated[int, Ge(1)] = 1) -> None:
        super().__init__(weight=weight, every=every)

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor | None:
        refuse_spectral_norm(discriminator)
        squares = [largest_square(matrix) for matrix in matrices(discriminator)]
        return 0.5 * torch.stack(squares).sum() if squares else None


class Orthogonal(Lazy):
    """β · Σ ‖WWᵀ ⊙ (1 − I)‖²_F over the layers of D (Brock et al. 2019, BigGAN, section 3.1); β is `weight`.

    The rows of W are the filters; their inner products with one another are penalised, but not their norms. Departures: BigGAN
    applies it to G; weights are those that layers compute with, so with spectral norm they are the normalised ones.
    """

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 1e-4, every: Annotated[int, Ge(1)] = 1) -> None:
        super().__init__(weight=weight, every=every)

    def __call__(self, discriminator: Discriminator, x: Batch, fake: Batch) -> Tensor | None:
        products = [matrix @ matrix.T for matrix in matrices(discriminator)]
        squares = [(product - product.diag().diag()).square().sum() for product in products]
        return torch.stack(squares).sum() if squares else None


def largest_square(matrix: Tensor) -> Tensor:
    """Return σ², a scalar, of the largest singular value σ of a matrix.

    It is tr(AP)/tr(P) for the smaller Gram matrix A, where P is A to the power 2¹², computed by repeated squaring without a
    graph: a projection onto the eigenvector of the largest eigenvalue, or of several equal ones. Unlike an SVD, products do not
    make the host wait. Other eigenvalues are weighted by their 4096th power, which lowers σ² in n dimensions by less than n/10⁴
    of it, and by nothing where the next largest σ is a hundredth below.
    """
    rows, columns = matrix.shape
    gram = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    power = gram.detach()
    tiny = torch.finfo(power.dtype).tiny  # a matrix of zeros stays one
    for _ in range(SQUARINGS):
        power = power / power.trace().clamp_min(tiny)
        power = power @ power
    return (gram * power).sum() / power.trace().clamp_min(tiny)
