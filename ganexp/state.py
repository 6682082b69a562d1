"""State made of the states of parts."""

from typing import Any


class Stateful:
    """An object whose state is that of its parts, each with `state_dict()` and `load_state_dict(state)`."""

    def parts(self) -> dict[str, Any]:
        """Return everything in it that has a state, by name."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint."""
        return {name: part.state_dict() for name, part in self.parts().items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""
        for name, part in self.parts().items():
            part.load_state_dict(state[name])
