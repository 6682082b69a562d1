"""Numbers tensors by their values: equal tensors have the same number."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Values:
    """Numbers of values by a hash of their bytes, so that no tensor is kept."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}

    def number(self, tensor: Tensor) -> int:
        """Return the number of a tensor's values, a new one if they cannot be read."""
        try:
            flat = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
            copied = bytearray(flat.numel() or 1)  # torch reads none of no bytes; NumPy, which would, need not be there
            torch.frombuffer(copied, dtype=torch.uint8)[: flat.numel()].copy_(flat)
            read = hash(bytes(copied))
        except (RuntimeError, NotImplementedError, TypeError):  # on the meta device, sparse, complex and the like
            read = object.__hash__(object())
        return self._numbers.setdefault((tensor.shape, tensor.dtype, read), len(self._numbers) + 1)

    def of_all(self, tensors: Sequence[Tensor]) -> int:
        """Return the number of a list of tensors: that of a single tensor itself, and a new number for none."""
        numbers = [self.number(tensor) for tensor in tensors]
        if len(numbers) == 1:
            return numbers[0]
        return self._numbers.setdefault(tuple(numbers) or object(), len(self._numbers) + 1)
