"""The weight of G's loss relative to its terms, which may be rescaled by gradients."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, Misfit, Part
from ganexp.ranges import checked

ADVERSARIAL = "adversarial"
"""The name of the loss among the terms."""
LEAST = 1e-8
"""A lower bound of norms in a division, so that figures of a gradient of 0 are finite and do not count as divergence."""
Factors = Mapping[str, float | Tensor]


class Balance(Part):
    """The loss is multiplied by `weight`, and each term by its own.

    Args:
        weight: Of the adversarial loss; 0 trains G on its terms alone.
    """

    on_device: ClassVar = {"weight": None}

    rescales = False
    """Whether factors depend on gradients. They are constants for the gradient, so that G's objective has no potential."""

    @checked
    def __init__(self, *, weight: Annotated[float, Ge(0)] = 1.0) -> None:
        self.weight: float | Tensor = weight

    def check(self, run: Facts) -> None:
        if not self.weight and not run.terms:
            run.warn("leaves G nothing to learn from while its weight is 0 without terms: choose a weight or some term")
        if not self.rescales:
            return
        if not run.terms_of_output:
            raise Misfit("weighs G's loss against terms of its output, and there are none", balance="none", term="[l1]")
        if run.compiled:
            raise Misfit("takes further backward passes through both networks, which compiled ones do not keep", compile=False)

    def begin(self, names: list[str], device: torch.device, dtype: torch.dtype) -> None:
        """Create the state, given the names of the terms; called once, by the GAN."""

    def factors(
        self, values: Mapping[str, Tensor], weights: Factors, fake: Tensor, generator: nn.Module, processes: Processes
    ) -> Factors:
        """Return the factors of the loss, which is called `adversarial`, and of each term in G's objective.

        Args:
            values: The loss and the terms, scalars of the global batch with their graph.
            weights: The weight of the loss, and those of the terms.
            fake: This process's samples, with their graph.
            generator: The network.
            processes: The processes that train together.
        """
        return weights

    def advance(self) -> None:
        """Update the state by the last factors; called after each update of G."""


class Ratio(Balance):
    """The loss is multiplied by weight · ‖∇ terms‖ / (‖∇ loss‖ + 10⁻⁴), at most 10⁴ (Esser et al. 2021, VQGAN).

    That is the authors' code; their equation 7 has 10⁻⁶, and neither the weight nor the bound.

    Args:
        weight: As in `Balance`; the authors' code has 0.8.
    """

    rescales = True

    def factors(
        self, values: Mapping[str, Tensor], weights: Factors, fake: Tensor, generator: nn.Module, processes: Processes
    ) -> Factors:
        further = [weights[name] * value for name, value in values.items() if name != ADVERSARIAL]
        norms = [self.norm(value, fake, generator, processes) for value in (sum(further), values[ADVERSARIAL])]
        ratio = (norms[0] / (norms[1] + 1e-4)).clamp(0, 1e4)
        return {**weights, ADVERSARIAL: self.weight * ratio}

    def norm(self, value: Any, fake: Tensor, generator: nn.Module, processes: Processes) -> Tensor:
        """Return the norm of a gradient over the global batch, without a graph."""
        raise NotImplementedError


class LastLayer(Ratio):
    """`Ratio` by the gradients with respect to the weight of G's last layer, its attribute `last_layer`."""

    def check(self, run: Facts) -> None:
        super().check(run)
        if not run.last_layer:
            raise Misfit(
                "looks at the weight of G's last layer, and this generator does not say which that is", balance="output"
            )

    def norm(self, value: Any, fake: Tensor, generator: nn.Module, processes: Processes) -> Tensor:
        weight: Any = generator.last_layer
        own = torch.autograd.grad(value, weight, retain_graph=True)
        (gradient,) = processes.sum(own)
        assert gradient is not None
        return torch.linalg.vector_norm(gradient)


class Output(Ratio):
    """`Ratio` by the gradients with respect to G's output, which need no backward pass through G."""

    def norm(self, value: Any, fake: Tensor, generator: nn.Module, processes: Processes) -> Tensor:
        return norm_at(value, fake, processes)[1]


class Normalize(Balance):
    """Loss and terms get shares of one gradient at G's output (Défossez et al. 2023, EnCodec, equation 5).

    Each gradient is divided by an average of its own norm, and multiplied by `norm` times its share of all weights. Terms whose
    gradient does not pass through G's output, such as a commitment, keep their weights. Departure: the norm is that of the
    batch; the authors take the mean over samples.

    Args:
        weight: Of the adversarial loss, among those of the terms.
        norm: The norm of the whole gradient if all gradients had the same direction.
        decay: Decay of the averages of norms, which are exponential and bias-corrected.
    """

    on_device: ClassVar = {"weight": None, "norm": None, "decay": None}
    rescales = True

    @checked
    def __init__(
        self,
        *,
        weight: Annotated[float, Ge(0)] = 1.0,
        norm: Annotated[float, Gt(0)] = 1.0,
        decay: Annotated[float, Ge(0), Lt(1)] = 0.999,
    ) -> None:
        self.weight: float | Tensor = weight
        self.norm = norm
        self.decay = decay

    def begin(self, names: list[str], device: torch.device, dtype: torch.dtype) -> None:
        self._sums = {name: torch.zeros((), device=device, dtype=dtype) for name in (ADVERSARIAL, *names)}
        self._fix = torch.zeros((), device=device, dtype=dtype)
        self._next: dict[str, Tensor] = {}

    def factors(
        self, values: Mapping[str, Tensor], weights: Factors, fake: Tensor, generator: nn.Module, processes: Processes
    ) -> Factors:
        gradients = {name: norm_at(value, fake, processes) for name, value in values.items()}
        through = [name for name, (gradient, _) in gradients.items() if gradient is not None]
        self._next = {name: self.decay * self._sums[name] + gradients[name][1] for name in through}
        fix = self.decay * self._fix + 1
        total: Any = sum(weights[name] for name in through)
        scaled = {name: self.norm * weights[name] / total / (self._next[name] / fix).clamp(min=LEAST) for name in through}
        return {**weights, **scaled}

    @torch.no_grad()
    def advance(self) -> None:
        for name, value in self._next.items():
            self._sums[name].copy_(value)
        if self._next:
            self._fix.mul_(self.decay).add_(1)

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self._sums, "fix": self._fix}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state["sums"].items():
            self._sums[name].copy_(value)
        self._fix.copy_(state["fix"])


def times(factor: float | Tensor, value: Tensor) -> Tensor:
    """Return a multiple of a value, and the value itself if the factor is the number 1."""
    return value if not isinstance(factor, Tensor) and factor == 1 else factor * value


def norm_at(value: Any, fake: Tensor, processes: Processes) -> tuple[Tensor | None, Tensor]:
    """Return a gradient with respect to this process's samples, or None, and its norm over the global batch."""
    (gradient,) = torch.autograd.grad(value, fake, retain_graph=True, allow_unused=True)
    if gradient is None:
        return None, torch.zeros_like(value)
    with torch.no_grad():
        return gradient, processes.total(gradient.square().sum()).sqrt()


def compared_gradients(values: Mapping[str, Tensor], fake: Tensor, processes: Processes) -> dict[str, Tensor]:
    """Return the norm of each gradient at G's output, and each term's cosine with that of the loss, over the global batch."""
    gradients = {name: norm_at(value, fake, processes) for name, value in values.items()}
    of_loss, norm = gradients.pop(ADVERSARIAL)
    figures = {f"{ADVERSARIAL}_gradient": norm}
    for name, (gradient, own) in gradients.items():
        if gradient is not None and of_loss is not None:
            with torch.no_grad():
                product = processes.total((gradient * of_loss).sum())
            figures |= {f"{name}_gradient": own, f"{name}_cosine": product / (own * norm).clamp(min=LEAST**2)}
    return figures
