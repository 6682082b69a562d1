"""The parameters that an optimiser moves, and refusals of optimisers that would silently train other ones, or none."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

WRAPPERS = {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"}


class Optimized:
    """The parameters of one network that its optimiser moves.

    Parameters can be frozen and unfrozen at any time, since `requires_grad` is read at each update. With `max_norm`, a gradient
    with a larger norm is scaled down to it.
    """

    def __init__(
        self,
        network_name: str,
        optimizer_name: str,
        network: nn.Module,
        optimizer: Optimizer,
        max_norm: float | None = None,
    ) -> None:
        managed = {id(p) for p in _parameters(optimizer)}
        self.names = network_name, optimizer_name
        self.optimizer = optimizer
        self.max_norm = max_norm
        self.managed = [p for p in network.parameters() if id(p) in managed]
        self.left_out = [(name, p) for name, p in network.named_parameters() if id(p) not in managed]
        self.refuse_left_out()

    def trainable(self) -> list[nn.Parameter]:
        """Return the parameters that an update moves now."""
        if self.left_out:
            self.refuse_left_out()
        moving = [p for p in self.managed if p.requires_grad]
        if not moving:
            raise ValueError(f"the {self.names[0]} has no trainable parameter: unfreeze some by requires_grad_(True)")
        return moving

    def gradients(
        self,
        objective: Tensor,
        redundant: Sequence[nn.Parameter] = (),
        *,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> tuple[Tensor | None, ...]:
        """Return an objective's gradients for the trainable parameters; those for `redundant` are computed and discarded."""
        own = self.trainable()
        gradients: tuple[Tensor | None, ...] = ()
        if objective.requires_grad:
            gradients = torch.autograd.grad(
                objective,
                [*own, *redundant],
                retain_graph=retain_graph or create_graph,
                create_graph=create_graph,
                allow_unused=True,
            )[: len(own)]
        if all(gradient is None for gradient in gradients):
            raise ValueError(
                "the objective of an update depends on no parameter of the network that it moves: a batch was detached that "
                "should not be, x and fake are swapped, or another network's objective was given"
            )
        return gradients

    def step(self, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        """Move the trainable parameters by one step along their gradients, clipped to `max_norm` if there is one.

        The gradients are returned unclipped, and every `grad` is reset to None.
        """
        parameters = self.trainable()
        clipped = gradients if self.max_norm is None else clip(gradients, self.max_norm)
        for parameter, gradient in zip(parameters, clipped, strict=True):
            if gradient is not None and gradient.stride() != parameter.stride():
                # `torch.autograd.grad` returns any layout, and fused Adam reads gradient, weight and moments as flat arrays
                gradient = torch.empty_like(parameter, dtype=gradient.dtype).copy_(gradient)
            parameter.grad = gradient
        self.optimizer.step()
        for parameter in parameters:
            parameter.grad = None
        return gradients

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser's state, with learning rates and other settings that move as numbers."""
        state = self.optimizer.state_dict()
        groups = [{name: _numbers(setting) for name, setting in group.items()} for group in state["param_groups"]]
        return {**state, "param_groups": groups}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a copy of an optimiser's state.

        Tensors get the layout of their parameters, since fused kernels read both as flat arrays. Settings stay the optimiser's
        own, except for the learning rate, which a schedule may have moved.
        """
        own = self.optimizer.state_dict()["param_groups"]
        groups = [{**own_group, "lr": stored["lr"]} for own_group, stored in zip(own, state["param_groups"], strict=True)]
        parameters = _parameters(self.optimizer)
        on_device = getattr(self.optimizer, "reads_rate_on_device", False)  # torch moves the step counts of its own optimisers
        moments = {
            index: {name: _copied(parameters[index], value, on_device) for name, value in values.items()}
            for index, values in state["state"].items()
        }
        rates = [group["lr"] for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        for index, values in moments.items() if on_device else ():
            scalars = {name: value for name, value in values.items() if isinstance(value, Tensor) and value.dim() == 0}
            self.optimizer.state[parameters[index]] |= scalars  # torch gives them the parameter's type, but for `step`
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(rate, Tensor):
                group["lr"] = rate.fill_(group["lr"])

    def refuse_left_out(self) -> None:
        """Refuse trainable parameters that are not in the optimiser."""
        names = [name for name, p in self.left_out if p.requires_grad]
        if names:
            network, optimizer = self.names
            raise ValueError(
                f"{optimizer} lacks {len(names)} trainable parameters of the {network}, {names[0]} among them, which would "
                f"never be trained: give it {network}.parameters(), or freeze them by requires_grad_(False)"
            )


def clip(gradients: tuple[Tensor | None, ...], max_norm: float) -> tuple[Tensor | None, ...]:
    """Scale gradients by min(1, max_norm / (n + 1e-6)), with n the norm of all of them (Pascanu et al. 2013, algorithm 1).

    Unlike `torch.nn.utils.clip_grad_norm_`, it does not modify the given gradients. Gradients of a smaller norm are multiplied
    by 1, which changes no bit of them.
    """
    present = [gradient for gradient in gradients if gradient is not None]
    scale = (max_norm / (torch.nn.utils.get_total_norm(present) + 1e-6)).clamp(max=1)
    scaled = iter(torch._foreach_mul(present, scale))
    return tuple(None if gradient is None else next(scaled) for gradient in gradients)


def refuse_foreign_parameters(
    generator: nn.Module, discriminator: nn.Module, optimizer_g: Optimizer, optimizer_d: Optimizer
) -> None:
    """Refuse networks wrapped for data parallelism, networks that share parameters, and foreign parameters of an optimiser."""
    networks = {"generator": generator, "discriminator": discriminator}
    for name, network in networks.items():
        wrapper = next((type(m).__name__ for m in network.modules() if type(m).__name__ in WRAPPERS), None)
        if wrapper:
            raise ValueError(
                f"the {name} is wrapped in {wrapper}, which averages gradients only in backward(), and updates here do not "
                f"call it, so replicas would drift apart: give the network itself, as in {name}.module"
            )
    shared = _ids(generator.parameters()) & _ids(discriminator.parameters())
    if shared:
        names = [name for name, p in discriminator.named_parameters() if id(p) in shared]
        raise ValueError(
            f"generator and discriminator share parameters, {names[0]} among them, and an update of one would move the other: "
            "give each its own layers, by copy.deepcopy for example"
        )
    for key, optimizer, (name, network) in zip(
        ("optimizer_g", "optimizer_d"), (optimizer_g, optimizer_d), networks.items(), strict=True
    ):
        if _ids(_parameters(optimizer)) - _ids(network.parameters()):
            raise ValueError(f"{key} has parameters that are not the {name}'s: give it {name}.parameters(), and no others")


def _numbers(setting: Any) -> Any:
    """Return a setting of an optimiser with numbers in place of tensors."""
    if isinstance(setting, tuple):
        return tuple(map(_numbers, setting))
    return setting.item() if isinstance(setting, Tensor) else setting


def _copied(parameter: Tensor, value: Any, on_device: bool) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.shape != parameter.shape:
        return value.to(parameter.device if on_device else value.device, copy=True)
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _ids(parameters: Iterable[nn.Parameter]) -> set[int]:
    return {id(p) for p in parameters}
