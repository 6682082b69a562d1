"""Numbers for values: equal tensors have the same number, wherever they come from."""

import torch
from torch import Tensor


class Values:
    """The values that were seen, by a hash of their bytes, so that none of them is kept."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[torch.Size, torch.dtype, int], int] = {}

    def number(self, tensor: Tensor) -> int:
        """Return the number of a tensor's values; those that cannot be read are unlike all others."""
        try:
            read = hash(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        except (RuntimeError, NotImplementedError, TypeError):  # on the meta device, sparse, complex and the like
            read = object.__hash__(object())
        return self._numbers.setdefault((tensor.shape, tensor.dtype, read), len(self._numbers) + 1)
