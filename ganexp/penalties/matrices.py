"""The weights of a discriminator's layers as matrices, for penalties on weights."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import _SpectralNorm

from ganexp.penalties.base import Discriminator


def matrices(discriminator: Discriminator) -> list[Tensor]:
    """Return the weight of every layer that is trained, with a graph, `(outputs, inputs)`.

    A layer is a module with a `weight` of two dimensions or more. For a convolution, all dimensions but the outputs are
    flattened, as in spectral norm, and all groups are treated alike. A parametrised weight is the one that the layer computes
    with: divided by its spectral norm, for example, whose power iteration is not advanced.

    Raises:
        ValueError: The discriminator is a function without a method `read`, or a hook computes a layer's weight.
    """
    found: list[Tensor] = _read(discriminator, _of_layers)
    return found


def refuse_spectral_norm(discriminator: Discriminator) -> None:
    """Refuse a discriminator whose spectral norms are held at 1 already.

    Raises:
        ValueError: A layer has spectral norm.
    """
    if _read(discriminator, lambda network: any(isinstance(module, _SpectralNorm) for module in network.modules())):
        raise ValueError(
            "spectral norm holds at 1 what spectral regularisation would lower: choose discriminator.spectral_norm=false, or "
            "another penalty"
        )


def _read(discriminator: Discriminator, what: Callable[[nn.Module], Any]) -> Any:
    """Return what a function reads in a discriminator."""
    if isinstance(discriminator, nn.Module):
        return what(discriminator)
    read: Any = getattr(discriminator, "read", None)
    if read is None:
        raise ValueError("a penalty on weights needs a discriminator that is a module, or has its method `read`")
    return read(what)


def _of_layers(network: nn.Module) -> list[Tensor]:
    layers: dict[Tensor, nn.Module] = {}  # by weight, which layers may share
    for layer in network.modules():
        weight = _weight(layer)
        if weight is not None and weight.dim() > 1 and weight.requires_grad:
            layers[weight] = layer
    return [(w.transpose(0, 1) if isinstance(layer, _ConvTransposeNd) else w).flatten(1) for w, layer in layers.items()]


def _weight(layer: nn.Module) -> Tensor | None:
    """Return the weight that a layer computes with, without changing the state of its parametrisation."""
    if not parametrize.is_parametrized(layer, "weight"):
        if "weight" not in layer._parameters and isinstance(getattr(layer, "weight", None), Tensor):
            raise ValueError(
                f"the weight of a {type(layer).__name__} is made by a hook: take spectral_norm or weight_norm of "
                "torch.nn.utils.parametrizations, whose weights can be penalised"
            )
        return layer._parameters.get("weight")
    made: Any = layer.parametrizations["weight"]  # type: ignore[index]
    training = [module for module in made.modules() if module.training]
    for module in training:
        module.training = False
    try:
        return made()
    finally:
        for module in training:
            module.training = True
