"""When autograd saves a tensor for a backward pass, and when it lets go of it."""

from collections.abc import Callable
from typing import Any, Self

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ganexp.gan import GAN


class SavedTensors(saved_tensors_hooks):
    """A context in which `saved` is called for each tensor that autograd saves, the GAN's parameters excepted."""

    def __init__(self, gan: GAN) -> None:
        super().__init__(self._pack, self._unpack)
        networks = (gan.generator, gan.discriminator)
        self._parameters = {p.untyped_storage().data_ptr() for network in networks for p in network.parameters()}

    def __enter__(self) -> Self:  # type: ignore[override] # torch's returns None
        super().__enter__()
        return self

    def saved(self, tensor: Tensor) -> Callable[[], None]:
        """Note that a tensor was saved, and return the callback for when it is freed."""
        raise NotImplementedError

    def _pack(self, tensor: Tensor) -> Any:
        return tensor if tensor.untyped_storage().data_ptr() in self._parameters else _Saved(tensor, self.saved(tensor))

    @staticmethod
    def _unpack(packed: Any) -> Tensor:
        return packed.tensor if isinstance(packed, _Saved) else packed


class _Saved:
    """Lives as long as autograd keeps the tensor."""

    def __init__(self, tensor: Tensor, freed: Callable[[], None]) -> None:
        self.tensor = tensor.detach()  # attached, it would keep its own graph alive
        self.freed = freed

    def __del__(self) -> None:
        self.freed()
