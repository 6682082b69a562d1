"""Whether the samples of a batch see each other inside a network."""

from collections.abc import Sequence

import torch
from torch import Tensor


def coupled(samples: Tensor, outputs: Sequence[Tensor]) -> bool:
    """Return whether the output of the first or of the last sample depends on other samples, by autograd.

    Args:
        samples: `(B, …)`, from which the outputs were computed.
        outputs: A scalar for each sample.
    """
    by_first, by_last = (
        torch.autograd.grad(outputs[i], samples, retain_graph=True, materialize_grads=True)[0] for i in (0, -1)
    )
    return bool(by_first[1:].any() or by_last[:-1].any())
