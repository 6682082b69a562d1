"""Alternating-extrapolation GDA (Lee, Cho & Yun 2024): each network moves against the other's extrapolated weights."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.ranges import checked
from ganexp.strategies.memory import RuleWithMemory
from ganexp.strategies.steps import looking_ahead, stretch


class AlexGDA(RuleWithMemory):
    """Alternating-extrapolation descent (algorithm 1, with D for x and G for y). Trace: `z G r f D+ G [r] f G+`.

    D moves from ψ to ψ⁺ against G at θ̃, and G from θ to θ⁺ against D at ψ + γ(ψ⁺ − ψ); the next θ̃ is θ + δ(θ⁺ − θ). With δ = 1
    this is `joint` for γ = 0, `reuse_z` for γ = 1, and prediction (Yadav et al. 2018) for γ = 2. With a stateful optimiser,
    its actual step is stretched. Departures: θ̃ also stretches the steps that G takes alone; a constraint on D's weights holds
    at ψ⁺, and not beyond it; G's gradient does not pass through a latent step.

    Args:
        gamma: γ.
        delta: δ.
    """

    needs = ("latents",)
    looks_ahead = True

    on_device: ClassVar = {"gamma": None, "delta": None}

    @checked
    def __init__(self, *, gamma: Annotated[float, Ge(0)] = 2.0, delta: Annotated[float, Ge(0)] = 1.0) -> None:
        super().__init__()
        self.gamma: float | Tensor = gamma
        self.delta: float | Tensor = delta

    def rule(self, gan: GAN, reals: Iterator[Batch]) -> None:
        d_parameters, g_parameters = gan.d_parameters, gan.g_parameters
        x, z = next(reals), gan.sample().detach()
        with looking_ahead(g_parameters), torch.no_grad():
            stretch(g_parameters, self.past.before(gan, g_parameters), self.delta)
            fake = gan.generate(z)
        before = [p.detach().clone() for p in d_parameters]
        gan.update_d(gan.d_loss(x, fake))
        self.past.keep(gan, g_parameters, g_parameters)
        with looking_ahead(d_parameters):
            stretch(d_parameters, before, self.gamma)
            gan.update_g(gan.g_loss(x, gan.generate(z)))
