"""Tiny GANs in float64, and real batches to feed them."""

import copy
from collections import UserDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ganexp import GAN, Prior, Step, Trainer, strategies
from ganexp.distributed.processes import Processes
from ganexp.gan.passes import Passes
from ganexp.losses import BEGAN, EBGAN, WGAN, Loss
from ganexp.networks import MLPDiscriminator, MLPGenerator
from ganexp.penalties import GradientPenalty, NoPenalty, Penalty, WeightClipping
from ganexp.strategies.base import as_strategy
from ganexp.training import Average, Checkpoints, Guard, Measures, Samples
from ganexp.training.cuda_graph import Recorded
from tests.composing import chosen, declared, losses_of_scores, options


class Strategies(UserDict):
    """Strategies by name; one with a state is a new one each time that it is looked up, also by `values` and `items`."""

    def __getitem__(self, name):
        return copy.deepcopy(super().__getitem__(name))


QUICK: dict[str, dict[str, Any]] = {
    "unrolled": {"k": 2, "rate": 0.05},
    "consensus": {"gamma": 0.3},
    "symplectic": {"strength": 0.7},
    "competitive": {"rate": 0.3, "steps": 3},
    "jare": {"gamma": 0.3},
    "follow_the_ridge": {"steps": 3},
    "lead": {"alpha": 0.7},
    "alex_gda": {"gamma": 1.7, "delta": 0.6},
}
"""Settings for tiny GANs of strategies whose own are too slow for them, or too small to be seen."""
STRATEGIES = Strategies((name, chosen("strategy", name, **QUICK.get(name, {}))) for name in options("strategy"))
TWICE = tuple(name for name, one in STRATEGIES.items() if as_strategy(one).differentiates_gradients and name != "unrolled")
"""Strategies that differentiate the field of both gradients."""
WITHOUT_REPLAY = tuple(name for name, one in STRATEGIES.items() if as_strategy(one).learns_through_d_loss)
"""Strategies whose G learns through D's objective on its own fakes."""
ZERO_SUM = tuple(name for name, one in STRATEGIES.items() if "zero_sum" in as_strategy(one).needs)
BATCH = 6
LATENT = 3


class TinyAutoencoder(nn.Module):
    """An energy discriminator of points, small enough to be trained thousands of times."""

    output = "energy"

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.layers(x)).abs().mean(1)


@dataclass
class Case:
    """One loss as a user would choose it: with its penalty and the networks that it needs."""

    loss: Callable[[], Loss]
    penalty: Callable[[], Penalty] = NoPenalty
    discriminator: Callable[[], nn.Module] = field(default=lambda: MLPDiscriminator((2,), width=5, depth=2))
    generator: Callable[[], nn.Module] = field(default=lambda: MLPGenerator(LATENT, (2,), width=5, depth=2))


def case_of(loss: str) -> Case:
    """Return a loss with the kind of discriminator that it needs."""
    make = partial(chosen, "loss", loss)
    return Case(make) if "logit" in declared("loss", loss).accepts else Case(make, discriminator=TinyAutoencoder)


CASES = {name: case_of(name) for name in losses_of_scores()} | {
    "wgan": Case(WGAN, lambda: WeightClipping(bound=0.2)),
    "wgan_gp": Case(WGAN, GradientPenalty),
    "ebgan": Case(lambda: EBGAN(margin=0.5), discriminator=TinyAutoencoder),
    "began": Case(lambda: BEGAN(lambda_k=0.3, k_0=0.2), discriminator=TinyAutoencoder),
}

UNHELD = ("softmaxgan", "ragan", "rpgan")
"""Losses that no shift of all scores changes: the gradient of a weight that only shifts is rounding, and Adam moves by it."""
KINDS = ("hinge", "wgan_gp", "softmaxgan", "began")
"""A loss of each kind: of scores alone, with a penalty, with real scores in G's loss, with a state."""


def tiny_gan(
    case: Case,
    *,
    gan_class: type[GAN] = GAN,
    redundant_gradients: bool = False,
    momentum: float = 0.9,
    fused: bool | None = None,
    pack: int = 1,
    processes: Processes | None = None,
    wrap: Callable[[nn.Module], nn.Module] = lambda discriminator: discriminator,
) -> GAN:
    """Return the same float64 GAN at every call; `wrap` may put something around its discriminator."""
    torch.manual_seed(0)
    generator = case.generator().double()
    discriminator = wrap(case.discriminator().double())
    return gan_class(
        generator,
        discriminator,
        case.loss().double(),
        torch.optim.SGD(generator.parameters(), lr=0.05, momentum=momentum),
        torch.optim.Adam(discriminator.parameters(), lr=0.02, betas=(0.5, 0.9), fused=fused),
        Prior(LATENT, seed=3, dtype=torch.float64),
        batch_size=BATCH,
        pack=pack,
        penalty=case.penalty(),
        redundant_gradients=redundant_gradients,
        processes=processes,
    )


def gan_in_parts(count, case, **settings):
    """Return a tiny GAN whose optimisers do not blow up rounding, as Adam does where a gradient should be 0."""
    gan = tiny_gan(case, **settings)
    gan._passes = Passes(accumulate=count)
    gan._d.optimizer = torch.optim.SGD(gan.discriminator.parameters(), lr=0.05, momentum=0.5, foreach=True)
    return gan


def real_batches() -> Iterator[Tensor]:
    """Yield the same batches of points at every call."""
    generator = torch.Generator().manual_seed(5)
    while True:
        yield torch.randn(BATCH, 2, generator=generator, dtype=torch.float64) * 0.3 + 1


def state(gan: GAN) -> list[Tensor]:
    """Return copies of everything that an iteration moves: parameters of both networks, and the loss's buffers."""
    tensors = [*gan.generator.parameters(), *gan.discriminator.parameters(), *gan.loss.buffers()]
    return [tensor.detach().clone() for tensor in tensors]


def tiny_trainer(
    loss="nonsaturating",
    strategy=strategies.detach,
    *,
    gan=None,
    reals=None,
    iterations=10,
    d_steps=1,
    g_steps=1,
    log_every=50,
    sample_every=0,
    checkpoint_every=1000,
    folder=None,
    keep_best=None,
    on_divergence="stop",
    average=None,
    recording=None,
    **settings,
):
    """Return a trainer of a tiny GAN; with a `recording`, its iterations are recorded by it."""
    gan = gan or tiny_gan(CASES[loss])
    step = Step(gan, strategy, d_steps=d_steps, g_steps=g_steps, average=average or Average(gan.generator))
    return Trainer(
        step if recording is None else Recorded(step, recording),
        real_batches() if reals is None else reals,
        iterations=iterations,
        callbacks=[Measures(log_every), Samples(sample_every)],
        checkpoints=Checkpoints(folder, every=checkpoint_every, best=keep_best),
        guard=Guard(on_divergence, folder),
        **settings,
    )


def iterate(trainer, iterations=1):
    """Run iterations of a trainer, and nothing that watches."""
    for _ in range(iterations):
        trainer.step(trainer.reals)
        trainer.iteration += 1


def train(gan, strategy, iterations=4, *, reals=None, d_steps=1, g_steps=1):
    """Train, and return copies of everything that an iteration moves."""
    reals = real_batches() if reals is None else reals
    for _ in range(iterations):
        strategy(gan, reals, d_steps=d_steps, g_steps=g_steps)
        gan.finish_iteration()
    return state(gan)


def count_parameters(network):
    """Return how many parameters a network has."""
    return sum(parameter.numel() for parameter in network.parameters())


def descend(optimizer, loss):
    """Take a step as textbooks do."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def derivative(value, weights, directions, step=1e-6):
    """Return the derivative of a value along a direction of weights, by a central difference."""
    values = []
    for sign in (1, -2):
        with torch.no_grad():
            torch._foreach_add_(weights, directions, alpha=sign * step)
        values.append(torch.as_tensor(value(), dtype=torch.float64).item())
    with torch.no_grad():
        torch._foreach_add_(weights, directions, alpha=step)
    return (values[0] - values[1]) / (2 * step)


def train_share(gan, strategy):
    """Train as one of several processes, and return all parameters and buffers, and what was measured."""
    reals = (gan.processes.own(x) for x in real_batches())
    ends = train(gan, strategy, 10, reals=reals, d_steps=2)
    return [*ends, *gan.discriminator.buffers()], gan.meter.read(gan.measurements())
