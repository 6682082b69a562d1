"""Modules, optimisers and processes of a user's own trainer, as the players of a game."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from ganexp.distributed.processes import Processes


class JoinedOptimizers:
    """Several optimisers of one player, which step together."""

    def __init__(self, optimizers: list[Optimizer]) -> None:
        self.each = optimizers

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The parameter groups of all."""
        return [group for optimizer in self.each for group in optimizer.param_groups]

    def step(self) -> None:
        """Let each make a step."""
        for optimizer in self.each:
            optimizer.step()


def joined(name: str, optimizers: Optimizer | Iterable[Optimizer]) -> Any:
    """Return one optimiser unchanged, and several as one."""
    each = list(optimizers) if isinstance(optimizers, Iterable) else [optimizers]
    if any(isinstance(optimizer, torch.amp.GradScaler) for optimizer in each):
        raise ValueError(
            f"{name} is a GradScaler, which needs backward(), and updates here do not call it: take bfloat16, which needs no "
            "scaling, by torch.autocast inside the functions"
        )
    if not each or not all(hasattr(optimizer, "param_groups") and hasattr(optimizer, "step") for optimizer in each):
        raise ValueError(f"{name} should be an optimiser of torch.optim, or a list of them")
    owners = [id(p) for optimizer in each for group in optimizer.param_groups for p in group["params"]]
    if len({*owners}) < len(owners):
        raise ValueError(f"the optimisers of {name} share parameters, which each of them would move: give each its own")
    return each[0] if len(each) == 1 else JoinedOptimizers(each)


def unwrapped(name: str, modules: nn.Module | Iterable[nn.Module]) -> nn.Module:
    """Return a player's only module, or its modules as one, without wrappers for data parallelism.

    `DistributedDataParallel` averages gradients in `backward()` alone, which updates here do not call. It is set not to wait
    for it, so that its own forward pass can still be used.
    """
    each = [modules] if isinstance(modules, nn.Module) else list(modules)
    if not each or not all(isinstance(module, nn.Module) for module in each):
        raise ValueError(f"{name} should be a module, or a list of modules")
    players = []
    for module in each:
        if type(module).__name__ == "FullyShardedDataParallel":
            raise ValueError(f"the {name} is sharded over processes, which no update here can move: wrap it in nothing")
        if type(module).__name__ in ("DistributedDataParallel", "DataParallel"):
            wrapper: Any = module
            wrapper.require_backward_grad_sync = False
            module = wrapper.module
        players.append(module)
    return players[0] if len(players) == 1 else nn.ModuleList(players)


def compiled(player: nn.Module) -> str:
    """Return the name of a compiled module in a player; empty if there is none."""
    for module in player.modules():
        if type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None:
            return type(getattr(module, "_orig_mod", module)).__name__
    return ""


def averaged_processes() -> Processes:
    """Return the processes of `torch.distributed`, whose gradients are averaged; this one alone if there are none."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return Processes()
    from ganexp.distributed.averaging import AveragedProcesses

    return AveragedProcesses()
