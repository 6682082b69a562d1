"""What a network declares about itself. Any `nn.Module` is a network: what it does not declare has a default."""

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
    """What a module, or a class of modules, declares.

    Args:
        output: What a discriminator's scores are, `logit` or `energy`: the attribute `output`.
        further: What a discriminator returns after each score, by name: the attribute `further`.
        maps: Whether a discriminator returns a map of scores for each sample: the attribute `maps`.
        reconstruct: The method `reconstruct(x)`, which returns samples as an autoencoder reconstructs them; None without one.
        reads_labels: Whether the constructor takes `classes`, and `forward` labels as its second argument.
        reads_sources: Whether a generator is given sources, and not latents: the attribute `reads_sources`.
        features: Whether a discriminator returns what its layers make of samples: the method `features`.
        own_terms: The names of the terms that a generator computes beside its samples, by the method `with_terms`.
        last_layer: Whether a generator says which weight its last layer has: the attribute `last_layer`.
        styles: Whether a generator makes its samples from styles, by the methods `styles` and `synthesis`.
        two_way: Whether a generator is two translators, its modules `a_to_b` and `b_to_a`, which map stacks (a, b) to stacks
            (F(b), G(a)): the attribute `two_way`.
        once: The setting to switch off so that it can be differentiated twice, the attribute `differentiable_once`; empty if it
            already can.
        bounded: Whether a generator makes images in [-1, 1] alone, since it ends in a tanh: the attribute `bounded`.
        draws: Settings that stop it from drawing random numbers in training: the attribute `draws`; empty if it draws none.
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
    """Return what a network declares, with defaults for what it does not."""
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
    """Refuse a class of networks that cannot be built for a run."""
    if run.conditional and not declared(kind).reads_labels:
        raise Misfit("reads no class labels, and a conditional GAN needs networks that do", conditional=False)
    if run.pack > 1 and declared(kind).reconstruct:
        raise Misfit("reconstructs samples, and cannot score packs of them", pack=1)
    if kind is ProjectedDiscriminator and not run.bounded:
        raise Misfit("sees features of images, and latents are none", discriminator="dit")


def check_generator(kind: Callable[..., nn.Module], run: Facts) -> None:
    """Refuse a generator of latents where the data have sources, and one of sources where they have none.

    One that ends in a tanh is warned of where the data exceed [-1, 1].
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
    """Refuse a network that several processes would not train as one process does."""
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
