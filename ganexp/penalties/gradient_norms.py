"""The gradient of a discriminator with respect to its input, from which penalties are built."""

import torch
from torch import Tensor

from ganexp.batch import Batch, scores_of
from ganexp.penalties.base import Discriminator


def score_gradients(discriminator: Discriminator, at: Batch) -> Tensor:
    """Return the score's gradient ∇D at each sample, `(B, n)` for samples of n numbers, which can itself be differentiated.

    It is meant to be the gradient of a sample's own score alone, so D should have no batch norm. Samples that carry a graph,
    as fakes do in unrolled steps, keep it; ∇D is taken at fixed weights even where the weights depend on such samples.
    """
    values = at.values if at.values.requires_grad else at.values.detach().requires_grad_()
    values = values.view_as(values)  # weights cannot depend on a new view; counting operations fails for leaves
    (gradient,) = torch.autograd.grad(scores_of(discriminator(values, *at.conditions)).sum(), values, create_graph=True)
    return gradient.flatten(1)


def norms(discriminator: Discriminator, at: Batch) -> Tensor:
    """Return ‖∇D‖₂ at each sample, `(B,)`."""
    return torch.linalg.vector_norm(score_gradients(discriminator, at), dim=1)


def refuse_unpaired(penalty: str, x: Batch, fake: Batch) -> None:
    """Refuse batches of different shapes.

    Raises:
        ValueError: The shapes differ.
    """
    real, made = tuple(x.values.shape), tuple(fake.values.shape)
    if real != made:
        raise ValueError(f"{penalty} pairs real with fake, but their shapes are {real} and {made}")
