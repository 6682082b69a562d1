"""Look ahead along the previous gradient, go back, and step with the gradients found there."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.memory import RuleWithMemory
from ganexp.strategies.steps import looking_ahead


class PastExtragradient(RuleWithMemory):
    """Popov 1980; for GANs Gidel et al. 2019, extrapolation from the past. Trace: `(DG+) z G r f DG+`.

    `extragradient` with as many operations as `joint`: the step ahead takes the gradients that the previous iteration found
    ahead, and the first iteration, which has none, takes no step ahead. As in the paper's ExtraAdam, an optimiser with state
    moves its state at both steps. Steps left over for one network alone are as in `joint`.
    """

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        parameters = gan.d_parameters, gan.g_parameters
        with looking_ahead([*parameters[0], *parameters[1]]):
            if self.past.tensors:
                gan.move_along(*(self.past.of(gan, own) for own in parameters))
            x, fake = next(reals), gan.generate(gan.sample())
            d, g = gan.losses(x, fake)
            there = gan.gradients(d, g)
        d_gradients, g_gradients = gan.update_both(d, g, there)
        self.past.keep(gan, [*parameters[0], *parameters[1]], [*d_gradients, *g_gradients])
