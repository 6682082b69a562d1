"""Whether choices fit each other and this machine, before data are read or anything is written."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ganexp.config import starting
from ganexp.config.assemble import Parts, networks_of, parts_of, wrapped_strategies
from ganexp.config.choices import Choices, as_user_error, chosen_by, name_of
from ganexp.config.decoders import with_decoder
from ganexp.config.dry_run import META, Demands, dry_iteration, refuse_too_large, try_networks, try_values
from ganexp.config.evaluation import Comparison, comparison_of, without_effect
from ganexp.config.metrics import high_is_best, refuse_unknown_metric
from ganexp.config.moving import Movable, at_the_end, movables
from ganexp.config.parsing import parse
from ganexp.config.perceiving import check_perceptual
from ganexp.config.plain import plain
from ganexp.config.resume import Checkpoint
from ganexp.config.schema import Config, Node
from ganexp.config.targets import Trust
from ganexp.data import Dataset
from ganexp.data.placement import free_memory
from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, Misfit, UserError
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
        processes: Those that will train together.
        checkpoint: The checkpoint that will be resumed.
        choices: The classes and functions that the configuration chooses, with their settings.
        parts: The parts made from the choices, and asked whether they fit.
        facts: What the parts were told about the run.
        moving: The numbers of parts that change over the run, by their keys.
        evaluation: How samples are compared with real ones; None for a run that is not evaluated.
        highest: Whether the highest value of `keep_best` is best, and not the lowest.
        demands: The operations that a sample takes; None for networks that look at values, which cannot be counted.
        warnings: What is allowed but probably unintended.
        missing: What has to be installed or made first, one sentence each.
    """

    values: dict[str, Any]
    config: Config
    machine: Machine
    processes: Processes
    checkpoint: Checkpoint | None
    choices: Choices
    parts: Parts
    facts: Facts
    moving: Mapping[str, Movable]
    evaluation: Comparison | None
    highest: bool
    demands: Demands | None
    warnings: list[str]
    missing: Sequence[str] = ()


def check(
    cfg: Any,
    *,
    config: Config | None = None,
    trust: Trust = (),
    processes: Processes | None = None,
    checkpoint: Checkpoint | None = None,
) -> Plan:
    """Check a configuration without reading data, taking memory or writing anything; refuse it with a `UserError`.

    One iteration of the real strategy runs on torch's meta device, where tensors have shapes but no memory, so that each
    part itself refuses what does not fit it.

    It is composed by Hydra, or consists of plain dictionaries and may be parsed already. `trust` are the modules beside
    ganexp's whose code it may run; None allows any. `Plan` tells what the other arguments are.
    """
    values = plain(cfg)
    config, processes = config or parse(values), processes or Processes()
    if checkpoint:
        checkpoint.refuse(values)
    with _naming_the_innermost(config.dataset) if isinstance(config.dataset.get("of"), dict) else nullcontext():
        choices, machine = chosen_by(config, trust), Machine.resolved(config.device, config.precision)
        if config.cuda_graph is True or config.compile or processes.count > 1:
            _check_execution(config, machine, processes.count)
        dataset = choices["dataset"].make()
        if getattr(dataset, "decode", None):
            with choices["dataset"].saying():
                with_decoder(dataset, machine.device)
        facts = facts_of(config, machine, processes.count, dataset)
        choices["dataset"].ask(dataset.check, facts)
        evaluation = comparison_of(choices.of("measure"), config, facts) if config.evaluate_every else None
        metrics = {"keep_best": config.keep_best, "sweep.metric": config.sweep.metric}
        asked = {key: metric for key, metric in metrics.items() if metric is not None}
        figures = evaluation.figures if evaluation and asked else {}
        for key, metric in asked.items():
            refuse_unknown_metric(key, metric, config, figures=figures)
        highest = config.keep_best is not None and high_is_best("keep_best", config.keep_best, config, trust)
        parts = parts_of(choices)
        networks, unseen = _networks(choices, facts)
        facts = _ask(choices, facts, parts, networks)
        moving = movables(choices, parts) if config.moving else {}
        demands = None
        if networks:
            try:
                demands = _dry_run(choices, machine, facts, parts, networks, resumed=checkpoint is not None)
            except RuntimeError as error:
                unseen = _meta_alone(choices, error)
        if config.accumulate > 1 or parts.strategy.tries_discriminator:
            try_values(choices, parts, facts)
    warnings = [*(without_effect(config, figures) if config.keep_best or not evaluation else []), *facts.warnings]
    if unseen:
        warnings.append(f"The networks' shapes are not checked beforehand: {unseen}")
    if machine.precision == "bf16" and machine.emulates_bf16:
        warnings.append("precision=bf16 is emulated by this device, and slow.")
    if moving:
        try:
            check(at_the_end(values, moving), trust=trust, processes=processes)
        except UserError as error:
            raise UserError(f"moving: with its last values, the run would be refused: {error}") from None
    of_run = (values, config, machine, processes, checkpoint)
    missing = evaluation.missing() if evaluation else []
    return Plan(*of_run, choices, parts, facts, moving, evaluation, highest, demands, warnings, missing)


@contextmanager
def _naming_the_innermost(dataset: Node) -> Iterator[None]:
    """Name `dataset.image_size` in errors by the key at which it lies in a data set that is made of another one.

    A network knows what size of image it takes, and not how the data set is composed.
    """
    key, node = "dataset", dataset
    while "image_size" not in node and isinstance(node.get("of"), dict):
        key, node = f"{key}.of", node["of"]
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("dataset.image_size", f"{key}.image_size")) from error


def _check_execution(config: Config, machine: Machine, processes: int) -> None:
    """Refuse CUDA graphs, compilation and several processes where they are not possible."""
    if config.cuda_graph is True and machine.device.type == "cpu":
        raise UserError(f"cuda_graph=true needs a GPU, but device={config.device} is not one: choose cuda_graph=auto.")
    if config.compile and config.term_gradients:
        raise UserError(
            "term_gradients=true takes more than one backward pass, which compiled networks cannot: choose compile=false."
        )
    if processes > 1 and config.device.startswith("cuda:"):
        raise UserError(f"device={config.device} is one GPU, and {processes} processes have one each: choose device=cuda.")
    if processes > 1 and config.cuda_graph is True:
        raise UserError(f"cuda_graph=true is for one process, and there are {processes}: choose cuda_graph=auto.")


def facts_of(config: Config, machine: Machine, processes: int, dataset: Dataset) -> Facts:
    """Return the facts of a run, except for those about its loss, strategy and networks."""
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
        **config.model_dump(include={"conditional", "flip", "batch_size", "pack", "iterations", "d_steps"}),
        dataset=dataset,
        shape=tuple(shape),
        bounded=dataset.bounded,
        classes=classes,
        g_batch=config.g_batch or 0,
        source_shape=tuple(dataset.source_shape),
        paired=bool(dataset.source_shape) and dataset.paired,
        processes=processes,
        compiled=config.compile,
        itemsize=machine.dtype.itemsize,
        free_bytes=free_memory(machine.device),
        against=config.evaluation.against,
        keeps_best=config.keep_best is not None,
    )


def _networks(choices: Choices, facts: Facts) -> tuple[tuple[nn.Module, nn.Module] | None, str]:
    """Return both networks on the meta device; None and the reason if a network looks at values, which do not exist there."""
    config = choices.config
    for key in ("generator", "discriminator"):
        choices[key].ask(partial(contract.check_kind, choices[key].target), facts)
    choices["generator"].ask(partial(contract.check_generator, choices["generator"].target), facts)
    if facts.source_shape:
        _check_sources(config, facts)
    if facts.processes > 1 or config.pack > 1:
        _check_shares(config, facts.processes)
    try:
        with torch.device(META), _Undrawn():
            return networks_of(choices, facts), ""
    except RuntimeError as error:
        return None, _meta_alone(choices, error)


def _ask(choices: Choices, facts: Facts, parts: Parts, networks: tuple[nn.Module, nn.Module] | None) -> Facts:
    """Ask each part whether it fits the run, and return the facts that it was told; it may add to their warnings.

    Without networks, the facts hold what their classes declare.
    """
    discriminator = networks[1] if networks else None
    of_g, of_d = map(declared, networks or (choices["generator"].target, choices["discriminator"].target))
    facts = replace(
        facts,
        loss=parts.loss,
        averages_weights=any(getattr(choices[f"optimizer.{side}"].target, "averages_weights", False) for side in "dg"),
        constant_steps=parts.strategy.constant_steps,
        scores=of_d.output,
        further=None if discriminator is None else of_d.further,
        maps=of_d.maps,
        once={"generator": of_g.once, "discriminator": of_d.once},
        terms=len(parts.terms),
        terms_of_d=sum(term.reads_discriminator for term in parts.terms.values()),
        terms_of_output=sum(not term.own for term in parts.terms.values()),
        reads_source=bool(getattr(discriminator, "reads_source", False)),
        features=of_d.features,
        own_terms=of_g.own_terms,
        last_layer=of_g.last_layer,
        batch_norm=discriminator is not None and contract.has_batch_norm(discriminator),
        styles=of_g.styles,
        two_way=of_g.two_way,
        augmented=not parts.augment.keeps_images,
    )
    for key, part in parts.by_key.items():
        choices[key].ask(part.check, facts)
    if parts.terms:
        check_perceptual(choices, parts, facts)
    if choices.config.dynamics.every:
        try:
            Dynamics(**choices.config.dynamics.model_dump()).check(facts)
        except Misfit as misfit:
            raise as_user_error(misfit, "dynamics", {"every"}) from None
    return facts


def _dry_run(
    choices: Choices,
    machine: Machine,
    facts: Facts,
    parts: Parts,
    networks: tuple[nn.Module, nn.Module],
    *,
    resumed: bool,
) -> Demands:
    """Run one iteration on the meta device, and return the operations that a sample takes.

    It raises a `RuntimeError` if something looks at values.
    """
    config, (generator, discriminator) = choices.config, networks
    for key, network in zip(("generator", "discriminator"), networks, strict=True):
        choices[key].ask(partial(contract.check, network), facts)
    demands = try_networks(choices, facts, generator, discriminator)
    choices["average"].ask(choices["average"].make(generator, discriminator).check, facts)
    refuse_too_large(machine, networks)
    networks = generator.to(machine.dtype), discriminator.to(machine.dtype)
    if config.init_from or config.freeze_d:
        starting.begin(config, *networks, resumed=resumed)
    few, *_ = wrapped_strategies(choices, constant_steps=True).values()  # further steps are alike
    dry_iteration(choices, machine, facts, parts, networks, few)
    return demands


class _Undrawn(TorchFunctionMode):
    """Leaves out torch.nn.init: on the meta device there is nothing to fill, and that imports torch._dynamo, in a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _meta_alone(choices: Choices, error: RuntimeError) -> str:
    """Return the reason for an error that only the meta device causes; any other is a mistake in the configuration."""
    reason = one_line(error)
    if "meta" not in reason:
        typed = ", ".join(map(choices.typed, ("discriminator", "loss", "penalty", "strategy")))
        raise UserError(f"{typed} cannot run one iteration: {reason}.") from error
    return reason


def check_loggers(plan: Plan) -> list[str]:
    """Ask the loggers whether they could begin, and return their warnings; a run without a folder need not ask."""
    facts = replace(plan.facts, warnings=[])
    for key, logger in plan.parts.loggers.items():
        plan.choices[key].ask(logger.check, facts)
    return facts.warnings


def _check_sources(config: Config, facts: Facts) -> None:
    """Refuse what has no meaning where G is given sources from the data."""
    why = f"{name_of(config.dataset)} gives G a source for each real sample"
    if config.pack > 1:
        raise UserError(f"pack={config.pack} has D score several samples at once, and dataset={why}: choose pack=1.")
    if config.g_batch not in (None, config.batch_size):
        raise UserError(f"g_batch={config.g_batch} is a number of latents, and dataset={why}: choose g_batch=null.")


def _check_shares(config: Config, processes: int) -> None:
    """Refuse batches that packs and processes cannot share, and labels for packs."""
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
