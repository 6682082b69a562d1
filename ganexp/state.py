"""State made of the states of parts."""

from typing import Any


class Stateful:
    """Whatever has nothing to remember but what its parts do, each by `state_dict()` and `load_state_dict(state)`."""

    def parts(self) -> dict[str, Any]:
        """Return everything in it that has a state, by name."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must hold."""
        return {name: part.state_dict() for name, part in self.parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from what a checkpoint held."""
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
