"""Games of two players: gradients, updates and records, and games whose objectives are given as functions."""

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.checkpoint import checkpoint

from ganexp.batch import Batch, Gradients, Objective
from ganexp.gan.field import Field, refuse_once_differentiable
from ganexp.gan.users_own import averaged_processes, compiled, joined, unwrapped
from ganexp.instruments.meter import Meter
from ganexp.instruments.timer import timer_for
from ganexp.optimizers.ownership import Optimized, refuse_foreign_parameters
from ganexp.prior import RealBatches

LACKING = {
    "scores": "reads D's scores of each sample, and a game of functions shows objectives alone",
    "discriminator": "gives other weights to D, and a game of functions does not say how D is called",
    "zero_sum": "needs a zero-sum game: give Game zero_sum=True if G's loss is minus D's, but for terms of one player alone",
    "latents": "generates from the same latents twice: give Game both sample= and generate=",
    "terms": "lets G learn without D: give Game terms=, which is called as g_loss is",
}
"""What a game of functions may lack, by the name in a strategy's `needs`."""


class Game:
    """Two players with an optimiser each, and the methods that update strategies are written in, called verbs.

    Verbs form quantities (`sample`, `generate`, `d_loss`, `g_loss`, `losses`), differentiate them (`gradients`, `field`), move
    networks (`move`), or update: differentiate, move and record. Only updates record: computing a loss has no side effects. An
    update computes gradients for the parameters of the player that moves, applies them, and leaves no gradient behind in
    either player.

    Any adversarial training can be written as a game of functions; `ganexp.Step` trains it by any strategy whose `needs` the
    game offers. `ganexp.GAN` is the game that forms its objectives from networks, a loss, a penalty and terms.

    Args:
        generator, discriminator: The players, each a module or several. A module that is wrapped for data parallelism is
            unwrapped; its wrapper does not average gradients any more: each update does.
        optimizer_g, optimizer_d: One optimiser or several for each player. Parameters that no optimiser has must be frozen.
        generate: Maps what `sample` returns to what D is shown: a tensor, or any nesting of tensors in lists, tuples, dicts and
            dataclasses. Without `sample`, it is given the real batch that its samples belong to, and may draw latents itself.
        d_loss: Maps a real batch and the output of `generate`, which some strategies detach, to D's objective, a scalar.
        g_loss: Maps the batch that the samples belong to, and the samples with their graph, to G's objective, a scalar.
        sample: Maps a real batch to what G is given, such as latents drawn for it; strategies that generate from the same
            latents twice need it.
        terms: G's objective without D, for `ganexp.wrappers.Pretrain`; called as `g_loss` is.
        zero_sum: Whether G's objective is minus D's, but for terms that depend on one player alone.
        clip_gradients: Shorten the gradient of each player to this norm where it is longer.
        accumulate: Split each batch, a nesting of tensors whose first dimension is that of the samples, into as many parts.
            Objectives have to be means over samples. Activations of a part are recomputed in the backward pass.
        redundant_gradients: As in `ganexp.GAN`.
        seed: Of the random numbers that wrappers draw.

    Where `torch.distributed` has been initialised, gradients are averaged over its processes at each update: for objectives
    that are means over samples, several processes are one process with the whole batch.

    Raises:
        ValueError: Players and optimisers do not belong together (`ganexp.optimizers.ownership`), or batches cannot be split.
    """

    loss: Any = None

    def __init__(
        self,
        generator: nn.Module | Iterable[nn.Module],
        discriminator: nn.Module | Iterable[nn.Module],
        optimizer_g: Optimizer | Iterable[Optimizer],
        optimizer_d: Optimizer | Iterable[Optimizer],
        *,
        generate: Callable[[Any], Any],
        d_loss: Callable[[Any, Any], Tensor],
        g_loss: Callable[[Any, Any], Tensor],
        sample: Callable[[Any], Any] | None = None,
        terms: Callable[[Any, Any], Tensor] | None = None,
        zero_sum: bool = False,
        clip_gradients: float | None = None,
        accumulate: int = 1,
        redundant_gradients: bool = False,
        seed: int = 0,
    ) -> None:
        players = unwrapped("generator", generator), unwrapped("discriminator", discriminator)
        device = next(players[0].parameters(), torch.empty(0)).device
        self._begin(*players, joined("optimizer_g", optimizer_g), joined("optimizer_d", optimizer_d), clip_gradients, device)
        self.processes = averaged_processes()
        self.redundant_gradients = redundant_gradients
        self._seed = seed
        self.batches: RealBatches[Any] = RealBatches()
        self._sample, self._generate = sample, generate
        self._d_loss, self._g_loss, self._terms = d_loss, g_loss, terms
        self._accumulate = accumulate
        self._nesting: list[Any] = []  # that of the samples, one for all views
        offers = {"latents": sample is not None, "zero_sum": zero_sum, "terms": terms is not None}
        self.offers = tuple(need for need, offered in offers.items() if offered)
        if accumulate > 1:
            for name, player in (("generator", self.generator), ("discriminator", self.discriminator)):
                if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in player.modules()):
                    raise ValueError(f"accumulate={accumulate} changes what batch norm in the {name} computes: leave it out")

    def _begin(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        optimizer_g: Any,
        optimizer_d: Any,
        max_norm: float | None,
        device: torch.device | str,
    ) -> None:
        """Set the players and their optimisers; a subclass that forms objectives itself calls this in its constructor."""
        refuse_foreign_parameters(generator, discriminator, optimizer_g, optimizer_d)
        self.generator, self.discriminator = generator, discriminator
        self._g = Optimized("generator", "optimizer_g", generator, optimizer_g, max_norm)
        self._d = Optimized("discriminator", "optimizer_d", discriminator, optimizer_d, max_norm)
        self.meter, self.timer = Meter(device), timer_for(torch.device(device))
        self._checked: set[str] = set()

    @property
    def device(self) -> torch.device:
        """The device of both players."""
        return self.meter.device

    @property
    def seed(self) -> int:
        """The seed of the random numbers that wrappers draw."""
        return self._seed

    @property
    def optimizer_g(self) -> Optimizer:
        """The optimiser of G."""
        return self._g.optimizer

    @property
    def optimizer_d(self) -> Optimizer:
        """The optimiser of D."""
        return self._d.optimizer

    @property
    def d_parameters(self) -> list[nn.Parameter]:
        """The parameters of D that are trained now."""
        return self._d.trainable()

    @property
    def g_parameters(self) -> list[nn.Parameter]:
        """The parameters of G that are trained now."""
        return self._g.trainable()

    def phase(self, network: str) -> AbstractContextManager[None]:
        """Count the time that is spent inside as that of `d` or `g`."""
        return self.timer.phase(network)

    def accept(self, strategy: Any) -> None:
        """Refuse a strategy, with its wrappers, that needs what this game does not offer."""
        lacking = [need for need in strategy.needs if need not in self.offers]
        if lacking:
            raise ValueError(f"{strategy} {LACKING[lacking[0]]}, or choose another strategy, such as joint")
        if strategy.differentiates_gradients and self.processes.count > 1:
            raise ValueError(f"{strategy} differentiates gradients, of which each process has its share only: choose joint")
        if strategy.differentiates_gradients and (module := compiled(self.generator) or compiled(self.discriminator)):
            raise ValueError(f"{strategy} needs second derivatives, and {module} is compiled: leave torch.compile out")

    def follow(self, reals: Iterator[Any]) -> Iterator[Any]:
        """Return the real batches of an iteration, and note which of them the strategy has drawn."""
        return self.batches.follow(reals)

    def put_back(self) -> None:
        """Put the last real batch back, so that it is drawn again."""
        self.batches.put_back()

    def sample(self) -> Any:
        """Draw G's input for the last real batch, or for the next one if the last has been used."""
        batch = self.batches.take()
        return Draw(batch, batch if self._sample is None else self._sample(batch))

    def sample_for_g(self) -> Any:
        """Draw G's input for a batch that only G learns from."""
        return self.sample()

    def generate(self, z: Any) -> Any:
        """Generate samples with their graph."""
        with self.phase("g"):
            if self._accumulate > 1:
                parts = [checkpoint(self._generate, part, use_reentrant=False) for part in self._parts(z.given)]
                tensors = [torch.cat(pieces) for pieces in zip(*map(tensors_in, parts), strict=True)]
            else:
                parts = [self._generate(z.given)]
                tensors = tensors_in(parts[0])
            if not tensors:
                raise ValueError(f"generate should return a tensor, or tensors in a nesting, and returned {parts[0]!r}")
            self._nesting[:] = [mapped(parts[0], lambda _: TensorPlace)]
            return NestedFakes(tensors[0], tuple(tensors[1:]), z.batch)

    def shown_to_d(self, fake: Any) -> Any:
        """Return the fakes of D's objective: the given ones, unless a wrapper replaces them."""
        return fake

    def d_loss(self, x: Any, fake: Any) -> Objective:
        """Form D's objective on a real batch and generated samples."""
        with self.phase("d"):
            return self._objective("d_loss", self._d_loss, x, self.shown_to_d(fake).detach())

    def g_loss(self, x: Any, fake: Any) -> Objective:
        """Form G's objective on the samples and the batch that they belong to."""
        with self.phase("g"):
            return self._objective("g_loss", self._g_loss, fake.source, fake)

    def losses(self, x: Any, fake: Any) -> tuple[Objective, Objective]:
        """Form both objectives; samples are not detached, since the gradient of each is taken for its own player alone."""
        with self.phase("d"):
            d = self._objective("d_loss", self._d_loss, x, self.shown_to_d(fake))
        return d, self.g_loss(x, fake)

    def losses_of_both(self, x: Any, fake: Any) -> tuple[Objective, Objective]:
        """Form both objectives as functions of both players, for `field`."""
        with self.phase("d"):
            d = self._objective("d_loss", self._d_loss, x, fake)
        return d, self.g_loss(x, fake)

    def zero_sum_weight(self) -> float | Tensor:
        """Return w of a zero-sum game, in which L_G is −w·L_D but for terms of one player alone; refuse any other game."""
        return 1.0

    def update_g_by_terms(self, fake: Any) -> None:
        """Update G by `terms`, its objective without D."""
        if self._terms is None:
            raise ValueError(f"this strategy {LACKING['terms']}")
        with self.phase("g"):
            objective = self._objective("terms", self._terms, fake.source, fake)
            gradients = self.move_g(self.processes.sum(self._g.gradients(objective.value)))
            self.meter.record("g", {"loss/terms": objective.loss}, gradients)

    def need_second_derivatives(self, purpose: str, tensors: Sequence[Tensor | None]) -> None:
        """Refuse layers without second derivatives in the graph of gradients; checked once per purpose."""
        if purpose not in self._checked:
            refuse_once_differentiable(tensors)
            self._checked.add(purpose)

    def reals_for_g(self, reals: Iterator[Any]) -> Any:
        """Draw a real batch for a separate generator update."""
        return next(reals)

    def gradients(self, d: Objective, g: Objective) -> tuple[Gradients, Gradients]:
        """Take the gradient of D's objective for D and of G's objective for G."""
        with self.phase("d"):
            d_gradients = self._d.gradients(d.value, self._redundant(self._g), retain_graph=True)
        with self.phase("g"):
            return d_gradients, self._g.gradients(g.value, self._redundant(self._d))

    def field(self, d: Objective, g: Objective) -> Field:
        """Take the same gradients with their graph, for products with their Jacobian; see `losses_of_both`.

        A layer without second derivatives is refused.
        """
        with self.phase("d"):
            d_gradients = self._d.gradients(d.value, create_graph=True)
        with self.phase("g"):
            g_gradients = self._g.gradients(g.value, create_graph=True)
        self.need_second_derivatives("field", [*d_gradients, *g_gradients])
        return Field(d_gradients, g_gradients, self.d_parameters, self.g_parameters)

    def move(self, d_gradients: Gradients, g_gradients: Gradients) -> tuple[Gradients, Gradients]:
        """Move both networks by one step of their optimisers, recording nothing; return what all processes moved along."""
        return self.move_along(self.processes.sum(d_gradients), self.processes.sum(g_gradients))

    def move_along(self, d_gradients: Gradients, g_gradients: Gradients) -> tuple[Gradients, Gradients]:
        """Move both networks along gradients that all processes have, such as those that an earlier move returned."""
        with self.phase("d"):
            d_gradients = self.move_d(d_gradients)
        with self.phase("g"):
            return d_gradients, self.move_g(g_gradients)

    def move_d(self, gradients: Gradients) -> Gradients:
        """Move D by one step of its optimiser along gradients that all processes have, and return them."""
        return self._d.step(gradients)

    def move_g(self, gradients: Gradients) -> Gradients:
        """Move G likewise."""
        return self._g.step(gradients)

    def update_d(self, d: Objective, *, retain_graph: bool = False, gradients: Gradients | None = None) -> None:
        """Descend D's objective by one step of D; `retain_graph` keeps the graph for a later backward pass.

        Gradients may be given in place of the objective's own.
        """
        with self.phase("d"):
            gradients = gradients or self._d.gradients(d.value, self._redundant(self._g), retain_graph=retain_graph)
            self._record_d(d, self.move_d(self.processes.sum(gradients)))

    def update_g(self, g: Objective, *, gradients: Gradients | None = None) -> None:
        """Descend G's objective by one step of G, along its own gradient or a given one."""
        with self.phase("g"):
            gradients = gradients or self._g.gradients(g.value, self._redundant(self._d))
            self._record_g(g, self.move_g(self.processes.sum(gradients)))

    def update_both(
        self, d: Objective, g: Objective, gradients: tuple[Gradients, Gradients] | None = None
    ) -> tuple[Gradients, Gradients]:
        """Move both networks along gradients at one point, those of the objectives or given ones; return their global sums."""
        d_gradients, g_gradients = self.move(*(gradients or self.gradients(d, g)))
        self._record_d(d, d_gradients)
        self._record_g(g, g_gradients)
        return d_gradients, g_gradients

    def finish_iteration(self) -> None:
        """End an iteration, once all of its updates have been made."""

    def measurements(self) -> dict[str, Tensor]:
        """Return further scalars for the log, on the device."""
        return {}

    def read(self) -> dict[str, float]:
        """Return the means of both objectives since the last call, the number of updates, and the norms of kept gradients.

        Only this waits for the device. Gradients are kept by `step(batches, keep_gradients=True)`.
        """
        return self.meter.read(self.measurements()) | {f"updates/{name}": n for name, n in self.meter.updates.items()}

    def _record_d(self, d: Objective, gradients: Gradients) -> None:
        self.meter.record("d", {"loss/d": d.loss}, gradients)

    def _record_g(self, g: Objective, gradients: Gradients) -> None:
        self.meter.record("g", {"loss/g": g.loss}, gradients)

    def _redundant(self, other: Optimized) -> list[nn.Parameter]:
        return other.trainable() if self.redundant_gradients else []

    def _objective(self, name: str, function: Callable[[Any, Any], Tensor], batch: Any, fake: "NestedFakes") -> Objective:
        """Form an objective from a batch and samples, in the nesting that `generate` returned."""
        samples = filled(self._nesting[0], [fake.values, *fake.conditions])
        if self._accumulate == 1:
            return Objective(scalar(name, function(batch, samples)))
        total: Any = 0
        for part, own in zip(self._parts(batch), self._parts(samples), strict=True):
            value = scalar(name, checkpoint(function, part, own, use_reentrant=False))
            total = total + value * (len(tensors_in(own)[0]) / len(fake.values))
        return Objective(total)

    def _parts(self, nest: Any) -> Iterator[Any]:
        """Split the tensors of a nesting into parts, by their common first dimension."""
        tensors = tensors_in(nest)
        if len({len(tensor) if tensor.dim() else 0 for tensor in tensors}) != 1:
            raise ValueError(
                f"accumulate={self._accumulate} splits batches and samples, whose tensors should have one first dimension: "
                "leave accumulate out"
            )
        return (filled(nest, parts) for parts in zip(*(tensor.chunk(self._accumulate) for tensor in tensors), strict=True))


@dataclasses.dataclass
class Draw:
    """The input of G, and the real batch that it belongs to."""

    batch: Any
    given: Any
    """What `generate` is called with."""

    def detach(self) -> "Draw":
        """Return the same, cut off from any graph."""
        return Draw(self.batch, mapped(self.given, Tensor.detach))


class NestedFakes(Batch):
    """Samples of a nesting: its first tensor, the others as conditions, and as source the real batch that they belong to."""

    def detach(self) -> "NestedFakes":
        """Return the same samples, cut off from their graph."""
        return NestedFakes(self.values.detach(), tuple(tensor.detach() for tensor in self.conditions), self.source)


class TensorPlace:
    """The place of a tensor in a nesting."""


def mapped(nest: Any, change: Callable[[Any], Any]) -> Any:
    """Return a nesting of lists, tuples, dicts and dataclasses with its tensors changed, in their order."""
    if isinstance(nest, Tensor) or nest is TensorPlace:
        return change(nest)
    if isinstance(nest, Mapping):
        return {key: mapped(value, change) for key, value in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(mapped(part, change) for part in nest))
    if isinstance(nest, (list, tuple)):
        return type(nest)(mapped(part, change) for part in nest)
    if dataclasses.is_dataclass(nest) and not isinstance(nest, type):
        copied = copy.copy(nest)
        for field in dataclasses.fields(nest):
            object.__setattr__(copied, field.name, mapped(getattr(nest, field.name), change))
        return copied
    return nest


def tensors_in(nest: Any) -> list[Any]:
    """Return the tensors in a nesting, in their order."""
    tensors: list[Any] = []
    mapped(nest, tensors.append)
    return tensors


def filled(nest: Any, tensors: Iterable[Any]) -> Any:
    """Return a nesting with other tensors in the place of its own."""
    others = iter(tensors)
    return mapped(nest, lambda _: next(others))


def scalar(name: str, value: Any) -> Tensor:
    """Return an objective, and refuse anything but a scalar tensor."""
    if isinstance(value, Tensor) and value.ndim == 0:
        return value
    returned = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
    raise ValueError(f"{name} returns {returned}, and an objective is one number")
