"""Extrapolation from the past: look ahead along the previous gradient, return, and step by the gradients at the point ahead."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.strategies.memory import RuleWithMemory
from ganexp.strategies.steps import looking_ahead


class PastExtragradient(RuleWithMemory):
    """Popov 1980; for GANs Gidel et al. 2019, extrapolation from the past. Trace: `(DG+) z G r f DG+`.

    `extragradient` with as many operations as `joint`: the step ahead takes the gradients that the previous iteration found
    ahead, and the first iteration, which has none, takes no step ahead. As in the paper's ExtraAdam, an optimiser with state
    moves its state at both steps. Steps left over for one network alone are as in `joint`.

    With a decay β, the step ahead takes the average m ← βm + (1 − β)v of those gradients in place of the last one, v, and m
    begins as the first of them (after Ramirez et al. 2024, Omega). Departure: their step has the further term v − m; here, from
    one point ahead to the next, it is (1 − β)(v − m), which is the same for β = 0.

    Args:
        decay: β; 0 is extrapolation from the past.
    """

    looks_ahead = True
    moves_weights = True
    on_device: ClassVar = {"decay": None}

    @checked
    def __init__(self, *, decay: Annotated[float, Ge(0), Lt(1)] = 0.0) -> None:
        super().__init__()
        self.decay: float | Tensor = decay

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        parameters = gan.d_parameters, gan.g_parameters
        with looking_ahead([*parameters[0], *parameters[1]]):
            if self.past.tensors:
                gan.move_along(*(self.past.of(gan, own) for own in parameters))
            x, fake = next(reals), gan.generate(gan.sample())
            d, g = gan.losses(x, fake)
            gradients = gan.gradients(d, g)
        d_gradients, g_gradients = gan.update_both(d, g, gradients)
        self.past.keep(gan, [*parameters[0], *parameters[1]], self._averaged(gan, [*d_gradients, *g_gradients]))

    @torch.no_grad()
    def _averaged(self, gan: GAN, gradients: list[Tensor | None]) -> list[Tensor | None]:
        """Return the running average of gradients, which begins as the first of them."""
        if not isinstance(self.decay, Tensor) and not self.decay:
            return gradients
        before = self.past.of(gan, [*gan.d_parameters, *gan.g_parameters])
        return [
            new if new is None or past is None else new.lerp(past, self.decay)
            for past, new in zip(before, gradients, strict=True)
        ]
