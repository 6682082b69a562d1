"""The order in which samples come, and which of them each process gets."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ganexp.distributed.processes import Processes
from ganexp.streams import stream


def index_batches(
    n: int, batch_size: int, seed: int, device: torch.device | str, drawn: int = 0, *, flip: bool = False
) -> Iterator[Tensor]:
    """Yield index batches `(batch_size,)` for ever, over the permutations of epochs 0, 1, 2, …, from sample `drawn` on.

    With `flip`, an index of n + i means sample i, mirrored.
    """
    epoch, skipped = divmod(drawn, n)
    rest = torch.empty(0, dtype=torch.long, device=device)
    while True:
        while len(rest) < batch_size:
            permutation = torch.randperm(n, generator=stream(seed, "data order", index=epoch))
            if flip:
                permutation += n * torch.randint(2, (n,), generator=stream(seed, "flips", index=epoch))
            if rest.is_cuda:
                permutation = permutation.pin_memory()  # so that the copy does not make the host wait
            rest = torch.cat([rest, permutation.to(device, non_blocking=True)[skipped:]])
            epoch, skipped = epoch + 1, 0
        batch, rest = rest[:batch_size], rest[batch_size:]
        yield batch


class Share:
    """What one of several processes reads of the batches that they train on together.

    Args:
        processes: All of them.
        of: Samples of a batch, over all processes.
    """

    def __init__(self, processes: Processes, of: int) -> None:
        self.processes = processes
        self.of = of
        self.size = of // processes.count

    def __call__(self, indices: Tensor) -> Tensor:
        """Return the process's share of each of n batches, whose indices `(n·B,)` follow one another."""
        return self.processes.own(indices.view(-1, self.of).T).T.flatten()
