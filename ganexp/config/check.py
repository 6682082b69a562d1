"""Whether choices fit each other and this machine, before data are read or anything is written."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ganexp.config import starting
from ganexp.config.assemble import Parts, networks_of, parts_of, wrapped_strategies
from ganexp.config.choices import Choices, chosen_by, name_of, said_of
from ganexp.config.decoders import with_decoder
from ganexp.config.dry_run import META, Demands, dry_iteration, refuse_too_large, try_networks, try_values
from ganexp.config.evaluation import EvaluationPlan, plan_evaluation
from ganexp.config.metrics import measuring, refuse_unknown_metric
from ganexp.config.moving import at_the_end, movables, refuse_unmovable
from ganexp.config.parsing import parse
from ganexp.config.perceiving import check_perceptual
from ganexp.config.plain import plain
from ganexp.config.schema import Config, Node
from ganexp.config.targets import Trust
from ganexp.data import Dataset
from ganexp.data.placement import free_memory
from ganexp.facts import Facts, UserError
from ganexp.networks import contract
from ganexp.networks.contract import declared
from ganexp.printable import one_line
from ganexp.training import Dynamics
from ganexp.training.execution import Machine


@dataclass(frozen=True)
class Plan:
    """A configuration that can be run here.

    Args:
        values: The configuration as plain values.
        config: The configuration, parsed.
        machine: Where it will run.
        choices: The classes and functions that the configuration chooses, with their settings.
        parts: The parts made from the choices, and asked whether they fit.
        facts: What the parts were told about the run.
        evaluation: What samples are measured by.
        warnings: What is allowed but probably unintended.
        demands: The operations that a sample takes; None for networks that look at values, which cannot be counted.
        missing: What has to be installed or made first, one sentence each.
    """

    values: dict[str, Any]
    config: Config
    machine: Machine
    choices: Choices
    parts: Parts
    facts: Facts
    evaluation: EvaluationPlan
    warnings: list[str]
    demands: Demands | None
    missing: Sequence[str] = ()


def check(cfg: Any, *, trust: Trust = (), processes: int = 1, resumed: bool = False) -> Plan:
    """Check a configuration without reading data, taking memory or writing anything.

    One iteration of the real strategy runs on torch's meta device, where tensors have shapes but no memory, so that each
    part itself refuses what does not fit it.

    Args:
        cfg: A configuration composed by Hydra, or the same as plain dictionaries.
        trust: Modules beside ganexp's whose code the configuration may run, or None for any.
        processes: How many will train together.
        resumed: Whether a checkpoint will be resumed.

    Raises:
        UserError: The configuration has a mistake, two choices do not fit, or it names code that is not trusted.
    """
    values = plain(cfg)
    config = parse(values)
    with _of_the_innermost(config.dataset):
        return _checked(values, config, trust, processes, resumed)


@contextmanager
def _of_the_innermost(dataset: Node) -> Iterator[None]:
    """Raise a sentence about `dataset.image_size` with the key where it lies, if the data set is made of another one.

    A network knows what size of image it takes, and not how the data set is composed.
    """
    key, node = "dataset", dataset
    while "image_size" not in node and isinstance(node.get("of"), dict):
        key, node = f"{key}.of", node["of"]
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("dataset.image_size", f"{key}.image_size")) from error


def _checked(values: dict[str, Any], config: Config, trust: Trust, processes: int, resumed: bool) -> Plan:
    choices, machine = chosen_by(config, trust), Machine.resolved(config.device, config.precision)
    if config.cuda_graph is True and machine.device.type == "cpu":
        raise UserError(f"cuda_graph=true needs a GPU, but device={config.device} is not one: choose cuda_graph=auto.")
    if config.compile and config.term_gradients:
        raise UserError(
            "term_gradients=true takes more than one backward pass, which compiled networks cannot: choose compile=false."
        )
    dataset = choices["dataset"].make()
    with choices["dataset"].saying():
        with_decoder(dataset, machine.device)
    facts = facts_of(config, machine, processes, dataset)
    choices["dataset"].ask(dataset.check, facts)
    evaluation = plan_evaluation(choices.of("measure"), config, facts)
    figures = evaluation.figures
    for key, metric in (("keep_best", config.keep_best), ("sweep.metric", config.sweep.metric)):
        refuse_unknown_metric(key, metric, measuring(config), figures=figures)
    for key in ("generator", "discriminator"):
        choices[key].ask(functools.partial(contract.check_kind, choices[key].target), facts)
    choices["generator"].ask(functools.partial(contract.check_generator, choices["generator"].target), facts)
    _check_sources(config, facts)
    _check_shares(config, processes)
    parts = parts_of(choices)
    networks, unseen = _on_meta(choices, facts)
    facts = _with_parts(choices, facts, parts, networks)
    for key, part in parts.by_key.items():
        choices[key].ask(part.check, facts)
    check_perceptual(choices, parts, facts)
    if config.dynamics.every:
        with said_of("dynamics", {"every"}):
            Dynamics(**config.dynamics.model_dump()).check(facts)
    moving = movables(choices)
    refuse_unmovable(choices, parts, moving)
    asked: Demands | None = None
    if networks:
        generator, discriminator = networks
        try:
            for key, network in (("generator", generator), ("discriminator", discriminator)):
                choices[key].ask(functools.partial(contract.check, network), facts)
            asked = try_networks(choices, facts, generator, discriminator)
            choices["average"].ask(choices["average"].make(generator, discriminator).check, facts)
            refuse_too_large(machine, networks)
            networks = generator.to(machine.dtype), discriminator.to(machine.dtype)
            starting.begin(config, *networks, resumed=resumed)
            few, *_ = wrapped_strategies(choices, constant_steps=True).values()  # further steps are alike
            dry_iteration(choices, machine, facts, parts, networks, few)
        except RuntimeError as error:
            unseen = _meta_alone(choices, error)
    warnings = [*evaluation.without_effect(), *facts.warnings]
    if unseen:
        warnings.append(f"The networks' shapes are not checked beforehand: {unseen}")
    try_values(choices, parts, facts)
    if machine.precision == "bf16" and machine.emulates_bf16:
        warnings.append("precision=bf16 is emulated by this device, and slow.")
    if moving:
        try:
            check(at_the_end(values, moving), trust=trust, processes=processes, resumed=resumed)
        except UserError as error:
            raise UserError(f"moving: with its last values, the run would be refused: {error}") from None
    missing = evaluation.missing()
    return Plan(values, config, machine, choices, parts, facts, evaluation, warnings, asked, missing)


class _Undrawn(TorchFunctionMode):
    """Leaves out torch.nn.init: on the meta device there is nothing to fill, and that imports torch._dynamo, in a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _on_meta(choices: Choices, facts: Facts) -> tuple[tuple[nn.Module, nn.Module] | None, str]:
    """Make both networks on the meta device; None and the reason if a network looks at values, which do not exist there."""
    try:
        with torch.device(META), _Undrawn():
            return networks_of(choices, facts), ""
    except RuntimeError as error:
        return None, _meta_alone(choices, error)


def _meta_alone(choices: Choices, error: RuntimeError) -> str:
    """Return the reason for an error that only the meta device causes; any other is a mistake in the configuration."""
    reason = one_line(error)
    if "meta" not in reason:
        typed = ", ".join(map(choices.typed, ("discriminator", "loss", "penalty", "strategy")))
        raise UserError(f"{typed} cannot run one iteration: {reason}.") from error
    return reason


def facts_of(config: Config, machine: Machine, processes: int, dataset: Dataset) -> Facts:
    """Return the facts of a run, except for those about its loss, strategy and networks.

    Raises:
        UserError: The dataset declares no valid shape, or its classes cannot be read.
    """
    shape = dataset.shape
    if not isinstance(shape, (tuple, list)) or not shape or not all(type(size) is int and size > 0 for size in shape):
        raise UserError(
            f"dataset._target_={config.dataset['_target_']} must have a shape, such as (3, 32, 32), and not {shape}."
        )
    try:
        classes = dataset.classes if config.conditional else 0
    except OSError as error:
        raise UserError(f"dataset: {error}.") from error
    return Facts(
        dataset=dataset,
        shape=tuple(shape),
        bounded=dataset.bounded,
        conditional=config.conditional,
        classes=classes,
        flip=config.flip,
        batch_size=config.batch_size,
        g_batch=config.g_batch or 0,
        source_shape=tuple(dataset.source_shape),
        paired=bool(dataset.source_shape) and dataset.paired,
        pack=config.pack,
        iterations=config.iterations,
        d_steps=config.d_steps,
        processes=processes,
        compiled=config.compile,
        itemsize=machine.dtype.itemsize,
        free_bytes=free_memory(machine.device),
        against=config.evaluation.against,
        keeps_best=config.keep_best is not None,
    )


def _with_parts(choices: Choices, facts: Facts, parts: Parts, networks: tuple[nn.Module, nn.Module] | None) -> Facts:
    """Add the facts about the loss, the strategy and the networks; without networks, what their classes declare."""
    discriminator = networks[1] if networks else None
    declared_g, declared_d = (
        declared(one) for one in networks or (choices["generator"].target, choices["discriminator"].target)
    )
    return replace(
        facts,
        loss=parts.loss,
        averages_weights=any(getattr(choices[f"optimizer.{one}"].target, "averages_weights", False) for one in "dg"),
        constant_steps=parts.strategy.constant_steps,
        scores=declared_d.output,
        further=None if discriminator is None else declared_d.further,
        maps=declared_d.maps,
        once={"generator": declared_g.once, "discriminator": declared_d.once},
        terms=len(parts.terms),
        terms_of_d=sum(term.reads_discriminator for term in parts.terms.values()),
        terms_of_output=sum(not term.own for term in parts.terms.values()),
        reads_source=bool(getattr(discriminator, "reads_source", False)),
        features=declared_d.features,
        own_terms=declared_g.own_terms,
        last_layer=declared_g.last_layer,
        batch_norm=discriminator is not None and contract.has_batch_norm(discriminator),
        styles=declared_g.styles,
        two_way=declared_g.two_way,
        augmented=not parts.augment.keeps_images,
    )


def check_loggers(plan: Plan) -> list[str]:
    """Ask the loggers whether they could begin, and return their warnings; a run without a folder need not ask.

    Raises:
        UserError: One of them could not begin.
    """
    facts = replace(plan.facts, warnings=[])
    for key, logger in plan.parts.loggers.items():
        plan.choices[key].ask(logger.check, facts)
    return facts.warnings


def _check_sources(config: Config, facts: Facts) -> None:
    """Refuse what has no meaning where G is given sources from the data."""
    if not facts.source_shape:
        return
    given = f"{name_of(config.dataset)} gives G a source for each real sample"
    if config.pack > 1:
        raise UserError(f"pack={config.pack} has D score several samples at once, and dataset={given}: choose pack=1.")
    if config.g_batch not in (None, config.batch_size):
        raise UserError(f"g_batch={config.g_batch} is a number of latents, and dataset={given}: choose g_batch=null.")


def _check_shares(config: Config, processes: int) -> None:
    """Refuse batches that packs and processes cannot share, and options that exclude packs or several processes."""
    whole = processes * config.pack
    for name, size in {"batch_size": config.batch_size, "g_batch": config.g_batch or whole}.items():
        if size % whole:
            packs = [f"packs of pack={config.pack}"] * (config.pack > 1)
            by = " and ".join([*packs, *[f"{processes} processes"] * (processes > 1)])
            raise UserError(
                f"{name}={size} cannot be shared equally among {by}: choose a multiple of {whole}, such as "
                f"{name}={whole * -(-size // whole)}."
            )
    if config.pack > 1 and config.conditional:
        raise UserError(
            f"conditional=true needs a label for each score, and D scores packs of pack={config.pack}: choose pack=1."
        )
    if processes > 1 and config.device.startswith("cuda:"):
        raise UserError(f"device={config.device} is one GPU, and {processes} processes have one each: choose device=cuda.")
    if processes > 1 and config.cuda_graph is True:
        raise UserError(f"cuda_graph=true is for one process, and there are {processes}: choose cuda_graph=auto.")
