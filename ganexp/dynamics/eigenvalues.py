"""Eigenvalues of a game's Jacobian, which is formed for tiny games only (Berard et al. 2020; Mescheder et al. 2017)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ganexp.gan import Field, Vector

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

DENSE = 64
"""Up to this many parameters, the matrix is formed, column by column: Arnoldi needs more parameters than eigenvalues."""


class Spectrum(NamedTuple):
    """Eigenvalues of J = ∂v/∂(ψ, θ), v = (∇_ψ L_D, ∇_θ L_G), and of its diagonal blocks.

    Simultaneous steps converge where all eigenvalues of J have a positive real part, and rotate where imaginary parts are large
    relative to the real parts. A player is at a minimum of its own objective where its block has only positive eigenvalues.
    """

    eigenvalues: npt.NDArray[np.complex128]
    """Those of J with the largest modulus and those with the smallest real part, `(k,)`, largest modulus first."""
    smallest_real: float
    """The smallest real part of an eigenvalue of J; nan if the Arnoldi iteration did not converge."""
    rotation: float
    """|Im λ|/|λ| of the eigenvalue with the largest modulus: 0 is no rotation, 1 pure rotation; nan likewise."""
    d: tuple[float, float]
    """Smallest and largest eigenvalue of ∂²L_D/∂ψ²; nan if Lanczos iterations did not converge."""
    g: tuple[float, float]
    """The same of ∂²L_G/∂θ²."""


def spectrum(field: Field, *, count: int = 6, products: int = 300) -> Spectrum:
    """Return the spectrum of a game at one point, as far as the iterations converge.

    Arnoldi iterations (SciPy's ARPACK) use products with Jᵀ, which has the eigenvalues of J; each product is one backward pass
    through the one that made v. Blocks are symmetric, so Lanczos iterations serve for them.

    Args:
        field: v at this point.
        count: Number of eigenvalues of each kind.
        products: Approximate number of products that each of the four searches may take.
    """
    d, g = field.split(field.vector)

    def of_d(u: Vector) -> Vector:
        return field.split(field.transposed([*u, *map(torch.zeros_like, g)]))[0]

    def of_g(u: Vector) -> Vector:
        return field.split(field.transposed([*map(torch.zeros_like, d), *u]))[1]

    whole = _operator(field.transposed, field.vector)
    largest, leftmost = (_eigenvalues(whole, which, count, products) for which in ("LM", "SR"))
    eigenvalues = np.concatenate([largest, leftmost])
    first = largest[np.argmax(abs(largest))] if len(largest) else float("nan")
    return Spectrum(
        _distinct(eigenvalues[np.argsort(-abs(eigenvalues), kind="stable")]),
        smallest_real=float(eigenvalues.real.min()) if len(leftmost) else float("nan"),
        rotation=float(abs(first.imag) / abs(first)) if first else 0.0,
        d=_ends(_operator(of_d, d), products),
        g=_ends(_operator(of_g, g), products),
    )


def _operator(product: Callable[[Vector], Vector], like: Vector) -> "LinearOperator":
    """Turn a product with lists of tensors into one with flat arrays in float64."""
    from scipy.sparse.linalg import LinearOperator  # takes a while to import

    sizes = [tensor.numel() for tensor in like]

    def flat(u: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        parts = torch.from_numpy(np.ascontiguousarray(u, np.float64).ravel()).to(like[0]).split(sizes)
        result = product([part.view_as(tensor) for part, tensor in zip(parts, like, strict=True)])
        together: npt.NDArray[np.float64] = concatenated(result).double().cpu().numpy()
        if not np.isfinite(together).all():
            raise ValueError("the game's second derivatives are not finite here")
        return together

    return LinearOperator((sum(sizes), sum(sizes)), matvec=flat, dtype=np.float64)


def _eigenvalues(operator: "LinearOperator", which: str, count: int, products: int) -> npt.NDArray[np.complex128]:
    """Return `count` eigenvalues of largest modulus, LM, or smallest real part, SR, or those of them that have converged."""
    from scipy.sparse.linalg import ArpackNoConvergence, eigs

    size, _ = operator.shape
    if size <= max(DENSE, count + 2):
        all_of_them = np.linalg.eigvals(operator @ np.eye(size)).astype(np.complex128)
        order = -abs(all_of_them) if which == "LM" else all_of_them.real
        return all_of_them[np.argsort(order, kind="stable")[:count]]
    if not (operator @ _start(size)).any():  # ARPACK finds no eigenvalue of J = 0
        return np.zeros(1, np.complex128)
    basis = min(size, max(2 * count + 1, 20))
    try:
        eigenvalues = eigs(operator, count, **_settings(size, basis, which, products), return_eigenvectors=False)
    except ArpackNoConvergence as error:
        eigenvalues = error.eigenvalues
    return np.asarray(eigenvalues, np.complex128)


def _ends(operator: "LinearOperator", products: int) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of a symmetric operator."""
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    size, _ = operator.shape
    if not size:
        return float("nan"), float("nan")
    if size <= DENSE:
        all_of_them = np.linalg.eigvalsh(operator @ np.eye(size))
        return float(all_of_them[0]), float(all_of_them[-1])
    if not (operator @ _start(size)).any():  # for example where a hinge loss is flat
        return 0.0, 0.0
    ends = []
    for which in ("SA", "LA"):
        try:
            (end,) = eigsh(operator, 1, **_settings(size, min(size, 20), which, products // 2), return_eigenvectors=False)
        except ArpackNoConvergence:
            end = float("nan")
        ends.append(float(end))
    return ends[0], ends[1]


def _settings(size: int, basis: int, which: str, products: int) -> dict[str, object]:
    return {"which": which, "ncv": basis, "maxiter": max(1, products // basis), "tol": 1e-6, "v0": _start(size)}


def _start(size: int) -> npt.NDArray[np.float64]:
    """Return the start vector of a search; ARPACK would draw one from a global random stream."""
    return np.random.default_rng(0).standard_normal(size)


def _distinct(eigenvalues: npt.NDArray[np.complex128]) -> npt.NDArray[np.complex128]:
    """Leave out duplicates: both searches may find the same eigenvalues."""
    kept: list[complex] = []
    for eigenvalue in eigenvalues:
        if all(abs(eigenvalue - other) > 1e-6 * abs(eigenvalue) + 1e-12 * abs(eigenvalues[0]) for other in kept):
            kept.append(eigenvalue)
    return np.array(kept, np.complex128)


def concatenated(tensors: Vector) -> Tensor:
    """Return tensors as one vector."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])
