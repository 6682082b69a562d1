"""Copies of networks before their first pass, and the weights after each round, for the comparison with a strategy."""

import copy

from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.watching.events import Player
from ganexp.watching.players import Players, unwrapped

ROUNDS = 4
"""How many rounds are kept: two iterations of a rule that looks ahead by steps."""


class Snapshots:
    """Copies of networks, and weights after each of the first rounds.

    A round ends where its first player moves again after another has moved: it is an iteration, or the look ahead in one.
    `copies` holds copies of each network before its first pass and of its optimiser, or None if they cannot be copied. `ends`
    holds, for each round, the number of events until its end and the weights of each player, on the CPU.
    """

    def __init__(self, players: Players) -> None:
        self.players = players
        self.copies: dict[nn.Module, tuple[nn.Module, Optimizer] | None] = {}
        self.ends: list[tuple[int, dict[int, list[Tensor]]]] = []
        self._moved: list[Player] = []
        self._copied: dict[nn.Module, Player] = {}

    @property
    def done(self) -> bool:
        """Whether all rounds are kept."""
        return len(self.ends) >= ROUNDS

    def before_pass(self, network: nn.Module, player: Player) -> None:
        """Copy a network before its first pass together with its optimiser, so that the copies belong together."""
        network = unwrapped(network)
        if not self.done and network not in self.copies:
            self._copy(network, player)

    def hand_over(self, before: Player, player: Player) -> None:
        """Copy a former player's networks again, with the optimiser that takes them over."""
        for network in [network for network, owner in self._copied.items() if owner is before]:
            if not self.done and self.players.of(network) is player:
                self._copy(network, player)

    def _copy(self, network: nn.Module, player: Player) -> None:
        self._copied[network] = player
        try:
            self.copies[network] = copy.deepcopy((network, player.optimizer)) if player.optimizer else None
        except Exception:  # anything may be in a module; then nothing is checked
            self.copies[network] = None

    def before_step(self, player: Player, events: int) -> None:
        """End a round where its first player moves again after another."""
        if len({*map(id, self._moved)}) > 1 and self._moved[0].successor:
            self._keep(events)  # it may be the end of a round, or of pretraining
        self._moved = [player for player in self._moved if not player.successor]
        if not self.done and any(moved is not player for moved in self._moved) and player is self._moved[0]:
            self.end(events)
        self._moved.append(player)

    def end(self, events: int) -> None:
        """End the round, and keep the weights after this number of events."""
        if self._moved:
            self._keep(events)
            self._moved.clear()

    def _keep(self, events: int) -> None:
        if not self.done:
            weights = {n: [p.detach().to("cpu", copy=True) for p in player.parameters()] for n, player in self.players.items()}
            self.ends.append((events, weights))

    def after(self, place: int) -> dict[int, list[Tensor]] | None:
        """Return the first weights that were kept after the event at this index."""
        return next((weights for number, weights in self.ends if number > place), None)
