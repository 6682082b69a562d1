"""Numbers for values: equal tensors have the same number, wherever they come from."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Values:
    """The values that were seen, by a hash of their bytes, so that none of them is kept."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}

    def number(self, tensor: Tensor) -> int:
        """Return the number of a tensor's values; those that cannot be read are unlike all others."""
        try:
            read = hash(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        except (RuntimeError, NotImplementedError, TypeError):  # on the meta device, sparse, complex and the like
            read = object.__hash__(object())
        return self._numbers.setdefault((tensor.shape, tensor.dtype, read), len(self._numbers) + 1)

    def of_all(self, tensors: Sequence[Tensor]) -> int:
        """Return the number of several tensors: that of the only one, and a new one where there is none."""
        numbers = [self.number(one) for one in tensors]
        if len(numbers) == 1:
            return numbers[0]
        return self._numbers.setdefault(tuple(numbers) or object(), len(self._numbers) + 1)
