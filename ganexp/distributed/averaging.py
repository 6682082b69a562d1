"""Processes of somebody else's program, each with a batch and a mean loss of its own."""

import torch.distributed as dist

from ganexp.batch import Gradients
from ganexp.distributed.group import summed
from ganexp.distributed.processes import Processes


class AveragedProcesses(Processes):
    """The processes of torch's default group, whose gradients are averaged.

    For objectives that are means over samples, and batches of one size, that is the gradient of the whole batch.
    """

    def __init__(self) -> None:
        self.count, self.rank = dist.get_world_size(), dist.get_rank()

    def sum(self, gradients: Gradients) -> Gradients:
        return tuple(None if gradient is None else gradient.div_(self.count) for gradient in summed(gradients))
