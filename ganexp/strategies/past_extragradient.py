"""Look ahead along the previous gradient, go back, and step with the gradients found there."""

from collections.abc import Iterator
from typing import Any

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.memory import ParameterMemory
from ganexp.strategies.simultaneous import Simultaneous
from ganexp.strategies.steps import looking_ahead


class PastExtragradient(Simultaneous):
    """Popov 1980; for GANs Gidel et al. 2019, extrapolation from the past. Trace: `(DG+) z G r f DG+`.

    `extragradient` with as many operations as `joint`: the step ahead takes the gradients that the previous iteration found
    ahead, and the first iteration, which has none, takes no step ahead. As in the paper's ExtraAdam, an optimiser with state
    moves its state at both steps. Steps left over for one network alone are as in `joint`.
    """

    keeps_count = False

    def __init__(self) -> None:
        self.past = ParameterMemory()

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        """Move both networks once."""
        parameters = gan.d_parameters, gan.g_parameters
        with looking_ahead([*parameters[0], *parameters[1]]):
            if self.past.tensors:
                gan.move_along(*(self.past.of(gan, own) for own in parameters))
            x, fake = next(reals), gan.generate(gan.sample())
            d, g = gan.losses(x, fake)
            there = gan.gradients(d, g)
        d_gradients, g_gradients = gan.update_both(d, g, there)
        self.past.keep(gan, [*parameters[0], *parameters[1]], [*d_gradients, *g_gradients])

    def state_dict(self) -> dict[str, Any]:
        """Return the state to checkpoint."""
        return self.past.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint's state."""
        self.past.load_state_dict(state)
