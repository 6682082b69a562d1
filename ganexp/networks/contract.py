"""The attributes that a network may declare, with defaults: any `nn.Module` is a network."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from ganexp.facts import Facts, Misfit
from ganexp.networks.minibatch_deviation import MinibatchDeviation
from ganexp.networks.projected import ProjectedDiscriminator


@dataclass(frozen=True)
class Declaration:
    """The declarations of a module, or of a class of modules; each is the attribute of its name unless stated otherwise.

    Args:
        output: The kind of a discriminator's scores, `logit` or `energy`.
        further: The name of what a discriminator returns after each score; empty for nothing.
        maps: Whether a discriminator returns a map of scores for each sample.
        reconstruct: The method `reconstruct(x)` of an autoencoder; None without one.
        reads_labels: Whether the constructor takes `classes`, and `forward` labels as its last argument.
        reads_sources: Whether a generator maps sources, rather than latents.
        features: Whether a discriminator has the method `features`, which returns the outputs of its layers but the last.
        own_terms: The names of the terms that a generator computes besides its samples, by the method `with_terms`.
        last_layer: Whether a generator has the attribute `last_layer`, the weight of its last layer.
        styles: Whether a generator has the methods `styles` and `synthesis`.
        two_way: Whether a generator is two translators, its modules `a_to_b` and `b_to_a`, which map stacks (a, b) to stacks
            (F(b), G(a)).
        once: The setting to switch off so that it can be differentiated twice, the attribute `differentiable_once`; empty if it
            already can.
        bounded: Whether a generator makes images in [-1, 1] alone, since it ends in a tanh.
        draws: Settings that stop it from drawing random numbers in training; empty if it draws none.
    """

    output: str
    further: str
    maps: bool
    reconstruct: Any
    reads_labels: bool
    reads_sources: bool
    features: bool
    own_terms: tuple[str, ...]
    last_layer: bool
    styles: bool
    two_way: bool
    once: str
    bounded: bool
    draws: str


def declared(network: nn.Module | Callable[..., nn.Module]) -> Declaration:
    """Return a network's declarations, with defaults for missing ones."""
    kind = type(network) if isinstance(network, nn.Module) else network
    return Declaration(
        output=getattr(network, "output", "logit"),
        further=getattr(network, "further", ""),
        maps=bool(getattr(network, "maps", False)),
        reconstruct=getattr(network, "reconstruct", None),
        reads_labels="classes" in inspect.signature(kind).parameters,
        reads_sources=bool(getattr(network, "reads_sources", False)),
        features=hasattr(network, "features"),
        own_terms=tuple(getattr(network, "own_terms", ())),
        last_layer=hasattr(network, "last_layer"),
        styles=hasattr(network, "styles") and hasattr(network, "synthesis"),
        two_way=bool(getattr(network, "two_way", False)),
        once=getattr(network, "differentiable_once", ""),
        bounded=bool(getattr(network, "bounded", False)),
        draws=getattr(network, "draws", "") if isinstance(network, nn.Module) else "",
    )


def has_batch_norm(network: nn.Module) -> bool:
    """Return whether a network normalises over the samples of a batch."""
    return any(isinstance(module, _BatchNorm) for module in network.modules())


def check_kind(kind: Callable[..., nn.Module], run: Facts) -> None:
    """Refuse a class of networks that does not fit the labels, packs or latents of a run."""
    if run.conditional and not declared(kind).reads_labels:
        raise Misfit("reads no class labels, and a conditional GAN needs networks that do", conditional=False)
    if run.pack > 1 and declared(kind).reconstruct:
        raise Misfit("reconstructs samples, and cannot score packs of them", pack=1)
    if kind is ProjectedDiscriminator and not run.bounded:
        raise Misfit("sees features of images, and latents are none", discriminator="dit")


def check_generator(kind: Callable[..., nn.Module], run: Facts) -> None:
    """Refuse a generator of latents where the data have sources, and one of sources where they have none.

    Warn of one that ends in a tanh if the data exceed [-1, 1].
    """
    if run.source_shape and not declared(kind).reads_sources:
        raise Misfit("makes samples from latents, and these data give it sources", "a generator of sources")
    if declared(kind).bounded and not run.bounded:
        run.warn("ends in a tanh, and so makes no latents outside [-1, 1]: choose generator=dit")
    if declared(kind).own_terms and run.compiled:
        run.warn("computes terms beside its samples, and so runs uncompiled")
    if declared(kind).reads_sources and not run.source_shape:
        raise Misfit("makes samples from sources, and these data have none", "sources")


def check(network: nn.Module, run: Facts) -> None:
    """Refuse a network that several processes would train differently from one process.

    Such a network draws random numbers, couples samples of different processes, or has an unknown kind of batch norm.
    """
    if run.processes == 1:
        return
    shares = {"batch_size": run.scored // run.processes, "g_batch": run.scored_for_g // run.processes}
    if settings := declared(network).draws:
        raise Misfit(
            f"draws random numbers in training, which would be the same in each of {run.processes} processes: choose "
            f"{settings}, or start one process"
        )
    for module in network.modules():
        if isinstance(module, _DropoutNd) and module.p > 0:
            raise Misfit(
                f"has dropout, whose random numbers would be the same in each of {run.processes} processes: choose a network "
                "without it, or start one process"
            )
        if isinstance(module, _BatchNorm) and type(module).forward not in (_BatchNorm.forward, nn.SyncBatchNorm.forward):
            raise Misfit(
                f"has a {type(module).__name__}, a subclass of batch norm that overrides forward(), which {run.processes} "
                "processes would bypass: use a module that contains an nn.BatchNorm2d, or start one process"
            )
        if isinstance(module, MinibatchDeviation) and (torn := [key for key in shares if shares[key] % module.group]):
            raise Misfit(
                f"has minibatch_deviation, which looks at groups of {module.group} neighbours, and {run.processes} processes "
                f"would tear them apart in batches of {getattr(run, torn[0])}",
                **{"minibatch_deviation": False, torn[0]: run.processes * run.pack * module.group},
            )
