"""Which parameters an optimiser moves: refusals of what would train the wrong ones, or nothing, in silence."""

from collections.abc import Iterable

from torch import nn
from torch.optim import Optimizer

WRAPPERS = {"DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"}


class Optimized:
    """The parameters of one network that its optimiser moves.

    Which of them are trained is looked up at each update, so that they can be frozen and unfrozen at any time.
    """

    def __init__(self, network_name: str, optimizer_name: str, network: nn.Module, optimizer: Optimizer) -> None:
        managed = {id(p) for p in _parameters(optimizer)}
        self.names = network_name, optimizer_name
        self.managed = [p for p in network.parameters() if id(p) in managed]
        self.left_out = [(name, p) for name, p in network.named_parameters() if id(p) not in managed]
        self.refuse_left_out()

    def trainable(self) -> list[nn.Parameter]:
        """Return the parameters that an update moves now.

        Raises:
            ValueError: There is none, or one that the optimiser does not have has been unfrozen.
        """
        if self.left_out:
            self.refuse_left_out()
        moving = [p for p in self.managed if p.requires_grad]
        if not moving:
            raise ValueError(f"the {self.names[0]} has no trainable parameter: unfreeze some by requires_grad_(True)")
        return moving

    def refuse_left_out(self) -> None:
        """Refuse trainable parameters that no step would move."""
        names = [name for name, p in self.left_out if p.requires_grad]
        if names:
            network, optimizer = self.names
            raise ValueError(
                f"{optimizer} lacks {len(names)} trainable parameters of the {network}, {names[0]} among them, which would "
                f"never be trained: give it {network}.parameters(), or freeze them by requires_grad_(False)"
            )


def refuse_foreign_parameters(
    generator: nn.Module, discriminator: nn.Module, optimizer_g: Optimizer, optimizer_d: Optimizer
) -> None:
    """Refuse networks and optimisers that do not belong together.

    Raises:
        ValueError: A network is wrapped for data parallelism, the networks share parameters, or an optimiser has parameters
            that are not its network's.
    """
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
    for (name, network), key, optimizer in zip(
        networks.items(), ("optimizer_g", "optimizer_d"), (optimizer_g, optimizer_d), strict=True
    ):
        if _ids(_parameters(optimizer)) - _ids(network.parameters()):
            raise ValueError(f"{key} has parameters that are not the {name}'s: give it {name}.parameters(), and no others")


def _parameters(optimizer: Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _ids(parameters: Iterable[nn.Parameter]) -> set[int]:
    return {id(p) for p in parameters}
