"""The limits of data parallelism for each recipe, computed from exchanged bytes, link rates and an assumed GPU speed."""

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.on_meta import on_meta
from benchmarks.section import Section
from ganexp import compose
from ganexp.batch import Batch, Gradients
from ganexp.config.check import check
from ganexp.distributed.processes import Processes, Whole
from measuring.markdown import table

RECIPES = ("dcgan", "began", "sngan", "sagan", "wgan_gp", "r3gan")
ASSUMED = 50.0
"""Tflop/s that a GPU is taken to sustain in these networks until that is measured: an estimate for an H100 in bfloat16."""


@dataclass
class Exchanged:
    """The communication of one process in an iteration, of one kind: the number of reductions, and their bytes."""

    calls: int = 0
    size: int = 0

    def add(self, tensor: Tensor) -> None:
        """Count one reduction."""
        self.calls += 1
        self.size += tensor.numel() * tensor.element_size()


class Pretended(Processes):
    """A simulated first process of several; the communication with the others is counted."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.exchanged = {kind: Exchanged() for kind in ("gradients", "scores", "statistics")}

    def __deepcopy__(self, memo: object) -> "Pretended":
        return self

    def own(self, whole: Whole) -> Whole:
        """Return the first share."""
        if isinstance(whole, Batch):
            return whole.map(self.own)
        return whole[: len(whole) // self.count]

    def gather(self, share: Tensor) -> Tensor:
        """Return its own scores once for every process."""
        self.exchanged["scores"].add(share)
        return torch.cat([share, *[share.detach()] * (self.count - 1)])

    def sum(self, gradients: Gradients) -> Gradients:
        """Return its own gradients."""
        self.exchanged["gradients"].add(torch.cat([one.reshape(-1) for one in gradients if one is not None]))
        return gradients

    def total(self, value: Tensor) -> Tensor:
        """Return its own statistics, which are exchanged again in the backward pass."""
        self.exchanged["statistics"].add(value)
        summed = value.clone()
        if summed.requires_grad:
            summed.register_hook(self.exchanged["statistics"].add)
        return summed


@dataclass(frozen=True)
class Link:
    """A link between GPUs: bytes per second in one direction, and latency in seconds."""

    name: str
    rate: float
    delay_s: float


NVLINK = Link("NVLink, 450 GB/s", 450e9, 3e-6)
INFINIBAND = Link("InfiniBand, 400 Gbit/s per GPU", 50e9, 6e-6)
ETHERNET = Link("Ethernet, 100 Gbit/s per node", 12.5e9, 30e-6)
PLACES = ((8, NVLINK), (64, INFINIBAND), (512, INFINIBAND), (64, ETHERNET))
"""How many GPUs, and the slowest link between them: eight share a node."""


@dataclass(frozen=True)
class Recipe:
    """What one iteration takes: operations for each sample of the batch, penalties left out, and what is exchanged."""

    name: str
    batch_size: int
    flop: float
    parameters: tuple[int, int]
    exchanged: dict[str, Exchanged]


def recipe_of(name: str) -> Recipe:
    """Count what an iteration of `experiment=name` by `detach` computes and exchanges, on torch's meta device.

    What lazy penalties exchange is included.
    """
    own = ["~strategy.new_reals"] * (name == "r3gan")  # a setting of its strategy that detach does not have
    cfg = compose(f"experiment={name}", "logger=[]", "device=cpu", "strategy=detach", "g_batch=null", *own)
    plan = check(cfg, processes=Pretended(8))  # so that a batch need not fit into this machine
    config, processes = plan.config, Pretended(2)
    gan, iterate = on_meta(plan, processes)
    iterate()
    assert plan.demands
    count_g, count_d = (sum(one.numel() for one in network.parameters()) for network in (gan.generator, gan.discriminator))
    flop = plan.demands.flop(1, config.d_steps, config.g_steps)
    return Recipe(name, config.batch_size, flop, (count_g, count_d), processes.exchanged)


def exchange_s(found: dict[str, Exchanged], count: int, link: Link) -> tuple[float, float]:
    """Return the seconds that an iteration's reductions take among `count` GPUs: for their bytes, and for their number.

    The bytes go round a ring, in which each GPU sends 2(N − 1)/N times what is reduced; the delays are those of a tree, there
    and back.
    """
    size, calls = sum(one.size for one in found.values()), sum(one.calls for one in found.values())
    return 2 * (count - 1) / count * size / link.rate, calls * 2 * math.log2(count) * link.delay_s


def row_of(recipe: Recipe, flops: float, share: int, count: int, link: Link) -> dict[str, object]:
    """Work out one recipe in one place, with `share` samples on each GPU and nothing overlapped."""
    compute = share * recipe.flop / flops
    by_bytes, by_calls = exchange_s(recipe.exchanged, count, link)
    times = {"computing": compute, "bytes": by_bytes, "number of reductions": by_calls}
    return {"computing, ms": 1000 * compute, "bytes, ms": 1000 * by_bytes, "number, ms": 1000 * by_calls} | {
        "efficiency": compute / sum(times.values()),
        "takes longest": max(times, key=lambda key: times[key]),
    }


def most_gpus(recipe: Recipe, flops: float) -> int:
    """Return among how many GPUs the recipe's own batch can be shared until half of the time is communication."""
    useful = 1
    for count in itertools.takewhile(lambda n: n <= recipe.batch_size, (2**k for k in itertools.count(1))):
        compute = recipe.batch_size // count * recipe.flop / flops
        if sum(exchange_s(recipe.exchanged, count, NVLINK if count <= PLACES[0][0] else INFINIBAND)) <= compute:
            useful = count
    return useful


def reach(flops: float) -> Section:
    """Tabulate how far each recipe goes.

    Args:
        flops: Operations per second that a GPU sustains in a recipe's networks: assumed, or measured by the part `gpu`.
    """
    recipes = [recipe_of(name) for name in RECIPES]
    exchanged = [
        {
            "recipe": one.name,
            "batch": one.batch_size,
            "parameters of G and D": " and ".join(f"{count / 1e6:.2f} M" for count in one.parameters),
            "Gflop per sample": one.flop / 1e9,
            **{f"{kind}, kB": f"{found.size / 1e3:,.1f} in {found.calls}" for kind, found in one.exchanged.items()},
            "own batch, GPUs at most": most_gpus(one, flops),
        }
        for one in recipes
    ]
    places = [
        {"recipe": one.name, "GPUs": count, "slowest link": link.name, **row_of(one, flops, one.batch_size, count, link)}
        for one in recipes
        for count, link in PLACES
    ]
    return Section(
        "How far data parallelism goes",
        f"Computed, not measured, for {flops / 1e12:.3g} Tflop/s per GPU. What an iteration exchanges, counted by "
        "running it on torch's meta device in the place of the first of two processes; and the number of GPUs up to which the "
        "recipe's own batch can be shared with half of the time spent computing:\n\n"
        + table(exchanged)
        + "\nWith the recipe's batch on *each* GPU, and nothing overlapped:\n\n"
        + table(places),
    )
