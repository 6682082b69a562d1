"""One step of latents, by its definition."""

import torch
from torch.func import functional_call

ALPHA, BETA = 0.7, 0.2


def moved(G, D, z, *, natural, through, sign=1):
    """Move latents one by one, by the definition; D's weights are constants."""
    weights = {name: p.detach().clone() for name, p in D.named_parameters()}
    rows = []
    for row in z:
        row = row.clone().requires_grad_()
        (g,) = torch.autograd.grad(sign * functional_call(D, weights, (G(row[None]),)).sum(), row, create_graph=through)
        rows.append(row.detach() + ALPHA * (g / (g @ g + BETA) if natural else g))
    return torch.stack(rows)
