"""The players of a loop: which optimiser moves which network. Optimisers are given, or found in memory."""

import gc
from collections.abc import Iterable

from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim import Optimizer

from ganexp.instruments.counting import key
from ganexp.watching.backward import owners_below
from ganexp.watching.events import Player


class Players(dict[int, Player]):
    """The players, by the id of their optimiser.

    Args:
        networks: The networks of G and of D, if given; else a network belongs to the optimiser that moves it.
        optimizers: The optimisers of G and of D, if given; else all that exist.
    """

    def __init__(
        self,
        networks: tuple[list[nn.Module], list[nn.Module]] | None = None,
        optimizers: tuple[list[Optimizer], list[Optimizer]] | None = None,
    ) -> None:
        super().__init__()
        self.networks = networks
        self.anonymous = optimizers is None
        self.memory: dict[int, int] = {}  # the owner of the weights at each address
        self._references: dict[int, StorageWeakRef] = {}  # while these exist, no other tensor is given such an address
        self._owners: dict[int, int] = {}
        for role, group in zip("GD", optimizers or (), strict=False):
            for optimizer in group:
                self.own(optimizer, role)

    def find_optimizers(self) -> None:
        """Make players of all optimisers that exist."""
        kinds = [Optimizer]
        for kind in kinds:
            kinds += kind.__subclasses__()  # whose own are looked at in turn
        for candidate in gc.get_referrers(*kinds):  # an object refers to its class; in half the time of looking at every object
            if issubclass(type(candidate), Optimizer) and hasattr(candidate, "param_groups"):
                self.own(candidate)

    def own(self, optimizer: Optimizer, role: str = "") -> None:
        """Register an optimiser's parameters and their addresses. Weights on the meta device do not exist, and are left out."""
        if any(p.is_meta for group in optimizer.param_groups for p in group["params"]):
            return
        player = self.setdefault(id(optimizer), Player(optimizer, role))
        for place in [place for place, owner in self.memory.items() if owner == id(optimizer)]:
            del self.memory[place]  # some weights may have been moved
            self._references.pop(place, None)
        for p in player.parameters():
            self.memory[key(p)] = self._owners.setdefault(id(p), id(optimizer))
            if key(p):
                self._references[key(p)] = StorageWeakRef(p.untyped_storage())

    def take_over(self, player: Player) -> list[Player]:
        """Give a player that is about to move, and owns nothing, the weights of owners that have as many parameters or more.

        Return these owners: an optimiser that only pretrained or is never used, or one for several networks.
        """
        if player.role or self._owns(player):
            return []
        owners_before = []
        for p in player.parameters():
            before = self[self._owners[id(p)]]
            if before is not player and len(player.parameters()) <= len(before.parameters()):
                self._owners[id(p)] = self.memory[key(p)] = id(player.optimizer)
                before.successor = None if self._owns(before) else player
                owners_before.append(before)
        return [*dict.fromkeys(owners_before)]

    def _owns(self, player: Player) -> bool:
        return any(self._owners[id(p)] == id(player.optimizer) for p in player.parameters())

    def has_new_memory(self, player: Player) -> bool:
        """Return whether a weight of a player was given other memory since it was registered, as `p.data = …` does."""
        return any(key(p) not in self.memory for p in player.parameters())

    def owner(self, parameter: Tensor) -> int | None:
        """Return the id of the optimiser that owns a parameter."""
        return self._owners.get(id(parameter))

    def of(self, network: nn.Module) -> Player | None:
        """Return a network's player; None if it has none, or if it contains networks of several players."""
        inner = unwrapped(network)
        if self.networks is not None:
            for role, known in zip("GD", self.networks, strict=True):
                if any(inner is unwrapped(network) for network in known):
                    return self._given(network, role)
            return None
        players = [*{self[owner] for p in network.parameters() if (owner := self.owner(p)) is not None}]
        if len(players) > 1:  # one of them may move the whole network, and others parts of it
            whole = {*map(id, network.parameters())}
            players = [player for player in players if whole <= player.ids]
        return players[0] if len(players) == 1 else None

    def _given(self, network: nn.Module, role: str) -> Player:
        parameters = {id(p) for p in network.parameters()}
        players = [player for player in self.values() if player.role == role]
        players = [player for player in players if player.ids & parameters] or players
        return players[0] if players else self.setdefault(-ord(role), Player(None, role))

    def reached(self, inputs: Iterable[Tensor]) -> set[int]:
        """Return the players whose parameters a backward pass through tensors reaches."""
        below = owners_below((tensor.grad_fn for tensor in inputs), self.owner)
        return {owner for owners in below.values() for owner in owners if owner is not None}


def averages(network: nn.Module) -> bool:
    """Return whether a network is a wrapper that averages gradients over processes."""
    return type(network).__name__ == "DistributedDataParallel"


def unwrapped(network: nn.Module) -> nn.Module:
    """Return the network inside DDP, DataParallel or torch.compile."""
    while True:
        inner = getattr(network, "_orig_mod", None)
        if inner is None and (averages(network) or type(network).__name__ == "DataParallel"):
            inner = network.module
        if not isinstance(inner, nn.Module):
            return network
        network = inner
