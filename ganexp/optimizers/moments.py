"""Running averages of gradients, by decay rates that are numbers or tensors on the device."""

import torch
from torch import Tensor

from ganexp.optimizers.rates import Rate, Tensors


def average_(means: Tensors, gradients: Tensors, beta: Rate) -> None:
    """M ← βm + (1 − β)g in place."""
    share = 1 - beta
    if isinstance(share, Tensor):
        torch._foreach_lerp_(means, gradients, [share.to(means[0].dtype)] * len(means))
    else:
        torch._foreach_lerp_(means, gradients, share)


def average_squares_(squares: Tensors, gradients: Tensors, beta: Rate) -> None:
    """V ← βv + (1 − β)g² in place."""
    if isinstance(beta, Tensor):
        torch._foreach_mul_(squares, beta.to(squares[0].dtype))
        torch._foreach_addcmul_(squares, torch._foreach_mul(gradients, (1 - beta).to(squares[0].dtype)), gradients)
    else:
        torch._foreach_mul_(squares, beta)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta)
