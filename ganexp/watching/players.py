"""Who moves which network: players are found by their optimisers, or are given."""

import gc
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.instruments.counting import key
from ganexp.watching.events import Player


class Players(dict[int, Player]):
    """The players, by the id of their optimiser.

    Args:
        networks: The networks of G and of D, if they are known; else networks belong to the optimiser that moves them.
        optimizers: Those of G and of D, if they are known; else those that exist.
    """

    def __init__(
        self,
        networks: tuple[list[nn.Module], list[nn.Module]] | None = None,
        optimizers: tuple[list[Optimizer], list[Optimizer]] | None = None,
    ) -> None:
        super().__init__()
        self.networks = networks
        self.anonymous = optimizers is None
        self.memory: dict[int, int] = {}  # where weights lie, with whose they are
        self._owners: dict[int, int] = {}
        for role, group in zip("GD", optimizers or (), strict=False):
            for one in group:
                self.own(one, role)

    def find(self) -> None:
        """Take the optimisers that exist as players."""
        for one in gc.get_objects():
            if issubclass(type(one), Optimizer) and hasattr(one, "param_groups"):
                self.own(one)

    def own(self, optimizer: Optimizer, role: str = "") -> None:
        """Note what an optimiser moves, and where that lies now; weights on the meta device do not exist, and are left out."""
        if any(p.is_meta for group in optimizer.param_groups for p in group["params"]):
            return
        player = self.setdefault(id(optimizer), Player(optimizer, role))
        for place in [place for place, owner in self.memory.items() if owner == id(optimizer)]:
            del self.memory[place]  # the memory of weights that lie elsewhere now may serve others
        for p in player.parameters():
            self.memory[key(p)] = self._owners.setdefault(id(p), id(optimizer))

    def take_over(self, player: Player) -> list[Player]:
        """Give a player that is about to move, and owns nothing, the weights that others have with as many more or as many.

        Return these others: an optimiser that only pretrained or is never used, or one for several networks.
        """
        if player.role or self._owns(player):
            return []
        found = []
        for p in player.parameters():
            before = self[self._owners[id(p)]]
            if before is not player and len(player.parameters()) <= len(before.parameters()):
                self._owners[id(p)] = self.memory[key(p)] = id(player.optimizer)
                before.successor = None if self._owns(before) else player
                found.append(before)
        return [*dict.fromkeys(found)]

    def _owns(self, player: Player) -> bool:
        return any(self._owners[id(p)] == id(player.optimizer) for p in player.parameters())

    def lies_elsewhere(self, player: Player) -> bool:
        """Return whether a weight of a player has been given other memory since it was last noted, as `p.data = …` does."""
        return any(key(p) not in self.memory for p in player.parameters())

    def owner(self, parameter: Tensor) -> int | None:
        """Return whose parameter it is."""
        return self._owners.get(id(parameter))

    def of(self, network: nn.Module) -> Player | None:
        """Return whose network it is: None if it is nobody's, or a container of several players' networks."""
        inner = unwrapped(network)
        if self.networks is not None:
            for role, known in zip("GD", self.networks, strict=True):
                if any(inner is unwrapped(one) for one in known):
                    return self._given(network, role)
            return None
        owners = {self.owner(p) for p in network.parameters()} - {None}
        players = [self[one] for one in owners if one is not None]
        if len(players) > 1:  # one of them may move all of it, and others parts
            whole = {*map(id, network.parameters())}
            players = [one for one in players if whole <= {*map(id, one.parameters())}]
        return players[0] if len(players) == 1 else None

    def _given(self, network: nn.Module, role: str) -> Player:
        parameters = {id(p) for p in network.parameters()}
        players = [one for one in self.values() if one.role == role]
        for player in players:
            if any(id(p) in parameters for p in player.parameters()):
                return player
        return players[0] if players else self.setdefault(-ord(role), Player(None, role))

    def reached(self, inputs: Iterable[Tensor]) -> set[int]:
        """Return the players whose parameters a backward pass through tensors reaches."""
        todo: list[Any] = [one.grad_fn for one in inputs if one.grad_fn is not None]
        known, found = set[Any](), set[int]()
        while todo:
            node = todo.pop()
            if node is None or node in known:
                continue
            known.add(node)
            owner = self.owner(node.variable) if hasattr(node, "variable") else None
            if owner is not None:
                found.add(owner)
            todo += [one for one, _ in node.next_functions]
        return found


def unwrapped(network: nn.Module) -> nn.Module:
    """Return the network inside DDP, DataParallel or torch.compile."""
    while True:
        inner = getattr(network, "_orig_mod", None)
        if inner is None and type(network).__name__ in ("DataParallel", "DistributedDataParallel"):
            inner = network.module
        if not isinstance(inner, nn.Module):
            return network
        network = inner
