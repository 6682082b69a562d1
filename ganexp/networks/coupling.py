"""Whether the samples of a batch see each other inside a network."""

from collections.abc import Sequence

import torch
from torch import Tensor


def coupled(samples: Tensor, outputs: Sequence[Tensor]) -> bool:
    """Return whether what came out for one sample depends on another: of the first and the last, which autograd shows.

    Args:
        samples: `(B, …)`, of which the outputs were computed.
        outputs: A scalar for each of them.
    """
    by_first, by_last = (
        torch.autograd.grad(outputs[i], samples, retain_graph=True, materialize_grads=True)[0] for i in (0, -1)
    )
    return bool(by_first[1:].any() or by_last[:-1].any())
