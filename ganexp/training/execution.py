"""Execution of networks: number format, memory layout, compilation, kernels. The networks' own code is independent of it."""

import os
import types
from dataclasses import dataclass
from typing import Any, Literal, cast

import psutil
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrizations import _SpectralNorm

from ganexp.distributed.batch_norm import is_synchronised
from ganexp.facts import UserError

Precision = Literal["fp32", "tf32", "bf16", "fp64"]


@dataclass(frozen=True)
class Machine:
    """The device and the precision that a run computes with, resolved once."""

    device: torch.device
    precision: Precision

    @classmethod
    def resolved(cls, device: str, precision: str) -> "Machine":
        """Resolve names of device and precision, and refuse what this machine does not have.

        `auto` is the current GPU if there is one, and TF32 on a GPU that has it.
        """
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        place = torch.device(device)
        if place.type == "cuda" and place.index is None and torch.cuda.is_available():
            place = torch.device("cuda", torch.cuda.current_device())  # which `join` has set, in several processes
        if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
            raise UserError(
                f"device={device} does not exist, since torch finds {torch.cuda.device_count()} GPUs: choose device=auto"
            )
        has_tf32 = place.type == "cuda" and torch.cuda.get_device_capability(place) >= (8, 0)
        if precision == "tf32" and not has_tf32:
            raise UserError(
                f"precision=tf32 needs an NVIDIA GPU of the Ampere generation or newer, and the device is {device}: choose "
                "precision=fp32 or bf16"
            )
        return cls(place, cast(Precision, ("tf32" if has_tf32 else "fp32") if precision == "auto" else precision))

    @property
    def dtype(self) -> torch.dtype:
        """The type of parameters and images."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    @property
    def autocast(self) -> torch.dtype | None:
        """The narrower type of matrix products and convolutions, if there is one."""
        return torch.bfloat16 if self.precision == "bf16" else None

    @property
    def memory_bytes(self) -> int:
        """How much memory the device has, free or not."""
        if self.device.type == "cuda":
            return torch.cuda.get_device_properties(self.device).total_memory
        return psutil.virtual_memory().total

    @property
    def emulates_bf16(self) -> bool:
        """Whether the device emulates bfloat16, which is slow."""
        if self.device.type == "cuda":
            return not torch.cuda.is_bf16_supported(including_emulation=False)
        return not torch.cpu._is_avx512_bf16_supported()

    def __str__(self) -> str:
        if self.device.type == "cuda":
            return f"{self.device} ({torch.cuda.get_device_name(self.device)}), in {self.precision}"
        threads = torch.get_num_threads()
        return f"{self.device} with {threads} thread{'s' if threads > 1 else ''}, in {self.precision}"


def set_up(machine: Machine, *, deterministic: bool, threads: int | Literal["auto"]) -> None:
    """Choose kernels for this process: their number format on a GPU, whether they must be deterministic, and threads."""
    if threads != "auto":
        torch.set_num_threads(threads)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it, and reads it when first used
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    if machine.device.type == "cuda":
        torch.cuda.set_device(machine.device)  # for events, pinned memory and all else that uses the current device
        torch.backends.cudnn.benchmark = not deterministic  # shapes never change here, so trying kernels once pays
        torch.backends.cudnn.allow_tf32 = machine.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = machine.precision == "tf32"


def prefers_channels_last(network: nn.Module, machine: Machine, *, compiled: bool = False) -> bool:
    """Return whether a network is expected to run faster in channels-last memory layout, as measured in `docs/benchmarks.md`.

    On a GPU, tensor cores want this layout, and float32 does not use them. Networks that are to be compiled for a GPU keep
    the usual one: the compiler mistakes the layout of a convolution's gradient (pytorch/pytorch#171622), and the run fails.
    """
    convolves = any(isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)) for module in network.modules())
    on_cpu = machine.device.type == "cpu"
    return convolves and machine.precision in (("fp32", "bf16") if on_cpu else ("tf32", "bf16")) and (on_cpu or not compiled)


def lay_out(network: nn.Module, machine: Machine, channels_last: bool | Literal["auto"], *, compiled: bool = False) -> None:
    """Lay weights out with channels innermost, which activations follow; with `auto`, if that should be faster."""
    if channels_last is True or (channels_last == "auto" and prefers_channels_last(network, machine, compiled=compiled)):
        network.to(memory_format=torch.channels_last)


def last_layer_in_float32(discriminator: nn.Module) -> None:
    """Keep a discriminator's last layer out of mixed precision.

    bfloat16 has 8 bits: scores around 10 would be rounded to steps of 1/16. The last layer is taken to be the linear or
    convolutional one that is registered last, in each of the networks that it holds in `scales` or `halves`; what a network
    computes by functions instead of modules is not found.
    """
    if held := [*getattr(discriminator, "scales", ()), *getattr(discriminator, "halves", ())]:
        for network in held:
            last_layer_in_float32(network)
        return
    layers = [module for module in discriminator.modules() if isinstance(module, (nn.Linear, _ConvNd))]
    if layers:
        layer: nn.Module = layers[-1]
        # a bound method, which deepcopy copies with its object: an averaged copy of a closure would call the original layer
        layer.forward = types.MethodType(_without_autocast, layer)


def _without_autocast(layer: nn.Module, x: Tensor, *further: Any) -> Tensor:
    floats = (value.float() if isinstance(value, Tensor) and value.is_floating_point() else value for value in (x, *further))
    with torch.autocast(x.device.type, enabled=False):
        return type(layer).forward(layer, *floats)


def compiled(*networks: nn.Module) -> None:
    """Compile networks in place, forward and backward pass; what they compute stays the same to rounding.

    A backward pass must not reuse the buffers of a graph that a later backward pass may need, as in `joint` and `retain_graph`.
    Spectral norm is not compiled: compiled, it keeps for the backward pass the very vectors that the next forward pass
    overwrites. Neither is batch norm that several processes share, since they communicate within it.
    """
    import torch._dynamo.config
    import torch._functorch.config

    torch._functorch.config.donated_buffer = False
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)  # many runs in one process: a sweep
    for network in networks:
        for module in network.modules():
            if isinstance(module, _SpectralNorm) or is_synchronised(module):
                setattr(module, "forward", torch.compiler.disable(module.forward))  # noqa: B010 (a method, to mypy)
        network.compile(dynamic=False)
