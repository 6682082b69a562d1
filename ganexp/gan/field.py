"""The joint gradient of both players, and products with its Jacobian, which is never formed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ganexp.batch import Gradients

Vector = list[Tensor] | tuple[Tensor, ...]
"""One tensor for each parameter that has a gradient: those of D, then those of G."""


class Field:
    """v = (∇_ψ L_D, ∇_θ L_G) at one point, with its graph, and its Jacobian J = ∂v/∂(ψ, θ) as a linear map.

    Vectors are plain lists or tuples of tensors, for `torch._foreach_add` and its like. Parameters whose gradient is None are
    left out of them; `gradients` puts the None back. None of the products can itself be differentiated. The singular vectors of
    spectral norm are constants in J, as they are in v.

    Args:
        d_gradients, g_gradients: v, one gradient for each parameter of D and of G, made with `create_graph`.
        d_parameters, g_parameters: ψ and θ; the attribute `parameters` holds those that have a gradient.
    """

    def __init__(
        self,
        d_gradients: Gradients,
        g_gradients: Gradients,
        d_parameters: Sequence[Tensor],
        g_parameters: Sequence[Tensor],
    ) -> None:
        self._d = [*zip(d_parameters, d_gradients, strict=True)]
        self._g = [*zip(g_parameters, g_gradients, strict=True)]
        reached = [(p, v) for p, v in (*self._d, *self._g) if v is not None]
        self.parameters = [p for p, _ in reached]
        self._with_graph = [v for _, v in reached]
        self._of_d = sum(v is not None for _, v in self._d)
        self.vector: Vector = [v.detach() for v in self._with_graph]

    def gradients(self, vector: Vector) -> tuple[Gradients, Gradients]:
        """Return a vector as gradients of D and of G, one for each of their parameters."""
        rest = iter(vector)
        d, g = (tuple(None if v is None else next(rest) for _, v in player) for player in (self._d, self._g))
        return d, g

    def split(self, vector: Vector) -> tuple[Vector, Vector]:
        """Return D's part of a vector, and G's."""
        return vector[: self._of_d], vector[self._of_d :]

    def transposed(self, u: Vector) -> Vector:
        """Return Jᵀu, by one backward pass through the graph of v."""
        return _pulled(self._with_graph, self.parameters, u)

    def both(self, u: Vector) -> tuple[Vector, Vector]:
        """Return Jᵀu and Ju, the latter as ∂⟨Jᵀw, u⟩/∂w, by a backward pass through the graph of Jᵀw."""
        w = [vector.detach().requires_grad_() for vector in u]
        forth = _pulled(self._with_graph, self.parameters, w, create_graph=True)
        return [product.detach() for product in forth], _pulled(forth, w, u)

    def of_d_by_g(self, u: Vector) -> Vector:
        """Return ∇_θ⟨∇_ψ L_D, u⟩ for a vector u of D's part."""
        return _pulled(self._with_graph[: self._of_d], self.parameters[self._of_d :], u)

    def of_g_by_d(self, u: Vector) -> Vector:
        """Return ∇_ψ⟨∇_θ L_G, u⟩ for a vector u of G's part."""
        return _pulled(self._with_graph[self._of_d :], self.parameters[: self._of_d], u)

    def of_d_by_d(self, u: Vector) -> Vector:
        """Return ∇_ψ⟨∇_ψ L_D, u⟩, the product of D's Hessian and a vector u of D's part."""
        return _pulled(self._with_graph[: self._of_d], self.parameters[: self._of_d], u)

    def d_along_g(self, u: Vector) -> Vector:
        """Return how ∇_ψ L_D changes as θ moves along a vector u of G's part, by two backward passes."""
        return _pushed(self._with_graph[: self._of_d], self.parameters[self._of_d :], u)

    def g_along_d(self, u: Vector) -> Vector:
        """Return how ∇_θ L_G changes as ψ moves along a vector u of D's part."""
        return _pushed(self._with_graph[self._of_d :], self.parameters[: self._of_d], u)


def dot(first: Vector, second: Vector) -> Tensor:
    """Return the inner product of two vectors, a scalar on their device."""
    return torch.stack([product.sum() for product in torch._foreach_mul(first, second)]).sum()


def added(first: Vector, second: Vector, factor: float | Tensor) -> Vector:
    """Return the first vector plus `factor` times the second, without reading a factor back from the device."""
    if isinstance(factor, Tensor):
        return torch._foreach_add(first, torch._foreach_mul(second, factor))
    return torch._foreach_add(first, second, alpha=factor)


def _pulled(outputs: Sequence[Tensor], inputs: Sequence[Tensor], u: Vector, *, create_graph: bool = False) -> Vector:
    """Return the derivative of ⟨outputs, u⟩ with respect to the inputs, zero where there is none."""
    moving = [(output, along) for output, along in zip(outputs, u, strict=True) if output.requires_grad]
    if not moving:
        return [torch.zeros_like(tensor) for tensor in inputs]
    ends, along = zip(*moving, strict=True)
    try:
        return [*torch.autograd.grad(ends, inputs, along, retain_graph=True, create_graph=create_graph, materialize_grads=True)]
    except RuntimeError as error:
        if "is not implemented" not in str(error):
            raise
        raise ValueError(_cannot(str(error).splitlines()[0])) from error


def _pushed(outputs: Sequence[Tensor], inputs: Sequence[Tensor], u: Vector) -> Vector:
    """Return the derivative Ku of the outputs as the inputs move along u, as ∂⟨Kᵀw, u⟩/∂w with K the outputs' Jacobian."""
    w = [torch.zeros_like(output, requires_grad=True) for output in outputs]
    return _pulled(_pulled(outputs, inputs, w, create_graph=True), w, u)


def refuse_once_differentiable(gradients: Sequence[Tensor | None]) -> None:
    """Refuse gradients of a function that is marked as differentiable once, which autograd silently treats as a constant."""
    visited: set[object] = set()
    ahead = [gradient.grad_fn for gradient in gradients if gradient is not None]
    while ahead:
        node = ahead.pop()
        if node is None or node in visited:
            continue
        if node.name() == "torch::autograd::Error":
            raise ValueError(_cannot("it is marked as once_differentiable"))
        visited.add(node)
        ahead += [following for following, _ in node.next_functions]


def _cannot(why: str) -> str:
    return (
        f"a layer of a network cannot be differentiated twice ({why}): choose one that can, or a strategy and a "
        "penalty that take no gradient of a gradient, such as joint and none"
    )
