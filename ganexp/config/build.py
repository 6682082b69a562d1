"""From a checked configuration to a trainer."""

import copy
import logging
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ganexp.config import starting
from ganexp.config.assemble import gan_of, networks_of, prior_of
from ganexp.config.check import Plan, check, check_loggers
from ganexp.config.choices import name_of
from ganexp.config.dry_run import CPU_FLOPS
from ganexp.config.moving import with_coefficients
from ganexp.config.plugins import distributions
from ganexp.config.resume import Checkpoint, endings
from ganexp.config.run_data import RunData, held_out_of, obtain
from ganexp.config.targets import Trust
from ganexp.config.untrusted import checked
from ganexp.distributed.batch_norm import synchronise
from ganexp.distributed.processes import Processes
from ganexp.facts import UserError
from ganexp.instruments.scalar import Scalar
from ganexp.logging import FolderLogger, Logger, ProgressLogger, RunDescription, Summary
from ganexp.logging.lock import FolderLocked, refuse_used
from ganexp.logging.meanings import sentences
from ganexp.logging.provenance import provenance
from ganexp.logging.reading import read
from ganexp.printable import printable
from ganexp.streams import seed_global_streams
from ganexp.training import (
    CheckpointError,
    Checkpoints,
    Diagnostics,
    Dynamics,
    Guard,
    Measures,
    Samples,
    Step,
    Stopping,
    Trainer,
    execution,
)
from ganexp.training.callbacks import diagnostics
from ganexp.training.checkpoint import State, description
from ganexp.training.checkpoints import NonWritingCheckpoints
from ganexp.training.cuda_graph import CudaRecorder, Recorded, reason_against

log = logging.getLogger(__name__)
PATIENCE_HOURS = 0.5


def build(
    cfg: Any,
    folder: str | Path | None = None,
    *,
    checkpoint: str | Path | None = None,
    stopping: Stopping | None = None,
    trust: Trust = (),
    processes: Processes | None = None,
) -> Trainer:
    """Build a trainer from a composed configuration.

    Seeds the global random streams of torch, NumPy and Python: networks draw from them, and a user's data sets may.

    Args:
        cfg: A configuration composed by Hydra; or the same as plain dictionaries, which may be anyone's, such as a
            checkpoint's: unless `trust` is None, they are refused if they name a file of features, which is code, or a place
            that a logger writes to, and their `data_root` does not count.
        folder: The run folder. Without one, nothing is written, and no logger of the configuration is opened.
        checkpoint: The checkpoint to resume from, of a run with the same configuration; rows are appended to those in `folder`.
        stopping: Reports that a signal has asked the run to stop.
        trust: Modules besides ganexp's whose classes and functions `cfg` may name, as in `trust=["mine"]`; None allows
            any, for a configuration that is your own.
        processes: The processes that train together, as `ganexp.distributed.joining.join` returns them; one of them writes.

    Raises:
        UserError: The configuration has a mistake, two choices do not fit together, the checkpoint does not fit, or a target
            is in a module that is not trusted.
    """
    if isinstance(cfg, dict):
        where, remedy = str(checkpoint or "The configuration"), "build it with trust=None, if it is your own"
        cfg = checked(cfg, where, trust=trust, remedy=remedy)
    if folder and not checkpoint and (processes is None or processes.is_main):
        refuse_used(Path(folder))
    resumed = Checkpoint.read(Path(checkpoint)) if checkpoint else None
    return trainer_of(check(cfg, trust=trust, processes=processes, checkpoint=resumed), folder, stopping=stopping)


def trainer_of(
    plan: Plan,
    folder: str | Path | None,
    *,
    obtained: RunData | None = None,
    stopping: Stopping | None = None,
    label: str = "",
    group: str = "",
) -> Trainer:
    """Build a trainer from a checked configuration, for a folder that holds no other run.

    The data and the evaluation are obtained unless that has been done. Loggers are told a label, which distinguishes the run
    from the others of its sweep, and the name of the sweep, which is their group.
    """
    config, machine, choices, processes = plan.config, plan.machine, plan.choices, plan.processes
    state = plan.checkpoint.state if plan.checkpoint else None
    folder = Path(folder) if folder else None
    obtained = obtained or obtain(plan)
    dataset, reals, evaluation = obtained.dataset, obtained.reals, obtained.evaluation
    figures = evaluation.evaluator.keys if evaluation else {}
    if folder:
        several = f", in {processes.count} processes" if processes.count > 1 else ""
        going_on = f", going on at iteration {state['run']['iteration']:,}" if state else ""
        log.info("Training in %s, on %s%s%s.", printable(folder), machine, several, going_on)
    for warning in plan.warnings:
        log.warning("%s", warning)
    count = len(reals.data)  # type: ignore[arg-type]  # a map-style dataset may have no length; those of a feed do
    log.info("%s: %s samples of %s.", choices["dataset"].called, f"{count:,}", "×".join(map(str, dataset.shape)))
    for sentence in sentences([*figures.items()]):
        log.info("%s", sentence)
    looked_at = min(config.batch_size, max(diagnostics.MOST, config.pack)) if config.sample_every and processes.is_main else 0
    held_out = held_out_of(dataset, plan.facts.classes, looked_at, machine) if looked_at else None
    seed_global_streams(config.seed)  # so that initial weights do not depend on what the data drew
    step = _step(plan, obtained)
    if folder and machine.device.type == "cpu":
        _say_if_heavy(plan)
    facts = plan.facts
    names = dataset.class_names if facts.classes else ()
    ranges = dataset.source_ranges if folder and facts.source_shape else ()
    checkpoints = (Checkpoints if processes.is_main else NonWritingCheckpoints)(
        folder,
        every=config.checkpoint_every,
        keep=config.keep_checkpoints,
        best=config.keep_best,
        highest=plan.highest,
        described=description(plan.values, facts.shape, facts.classes, names, facts.source_shape, ranges),
    )
    trainer = Trainer(
        step,
        reals,
        iterations=config.iterations,
        minutes=config.minutes,
        callbacks=[
            Measures(config.log_every),
            Samples(config.sample_every, dataset.pictures),
            Diagnostics(config.sample_every, held_out),
            *([evaluation] if evaluation else []),
            *([Dynamics(**config.dynamics.model_dump())] if config.dynamics.every else []),
        ],
        checkpoints=checkpoints,
        guard=Guard(config.on_divergence, folder if processes.is_main else None),
        stopping=stopping,
    )
    if state is not None:
        _go_on(trainer, state, plan.values)
    if processes.is_main:
        loggers = _loggers(plan, folder, figures, label=label, group=group)  # locks the folder
        if plan.checkpoint:
            checkpoints.resume_from(plan.checkpoint.path)
        trainer.log_to(loggers)
    return trainer


def _go_on(trainer: Trainer, state: State, values: dict[str, Any]) -> None:
    """Give a trainer the state of a checkpoint."""
    try:
        trainer.load_state_dict(state["run"])
    except CheckpointError as error:
        raise UserError(f"resume: {error}.") from error
    for note in endings(state, values):
        log.warning("%s", note)


def _step(plan: Plan, obtained: RunData) -> Step:
    """Make the networks, set up how they run, and return the step that trains them."""
    config, machine, choices, processes = plan.config, plan.machine, plan.choices, plan.processes
    networks = networks_of(choices, plan.facts)
    generator, discriminator = (network.to(machine.device, machine.dtype) for network in networks)
    if config.init_from or config.freeze_d:
        starting.begin(config, generator, discriminator, resumed=plan.checkpoint is not None)
    flop = (plan.demands.g_flop, plan.demands.d_flop) if plan.demands else (None, None)
    for key, network, count in zip(("generator", "discriminator"), (generator, discriminator), flop, strict=True):
        size = f"{sum(parameter.numel() for parameter in network.parameters()):,} parameters"
        operations = "" if count is None else f", {count:,.0f} floating-point operations per sample"
        log.info("%s: %s%s.", choices[key].called, size, operations)
        execution.lay_out(network, machine, config.channels_last, compiled=config.compile)
        if processes.count > 1:
            synchronise(network, processes)
    if machine.autocast:
        execution.last_layer_in_float32(discriminator)
    average = choices["average"].make(generator, discriminator)
    if config.compile:
        execution.compiled(generator, discriminator)  # the average copied them uncompiled
    parts = copy.deepcopy(plan.parts)  # a plan may be built more than once
    for name, distance in obtained.distances.items():
        parts.terms[name].distance = distance  # type: ignore[attr-defined]  # of a perceptual term
    gan = gan_of(
        choices,
        parts,
        generator,
        discriminator,
        prior=prior_of(config, machine.device, machine.dtype, obtained.frequencies, obtained.preview),
        autocast=machine.autocast,
        processes=processes,
    )
    schedule = parts.schedule
    if plan.moving:
        schedule = with_coefficients(plan.moving, config.iterations, parts, average, gan)
    step = Step(gan, parts.strategy, d_steps=config.d_steps, g_steps=config.g_steps, average=average, schedule=schedule)
    return step if machine.device.type == "cpu" or config.cuda_graph is False else _recorded(step, processes)


def _recorded(step: Step, processes: Processes) -> Step:
    """Return a step that is recorded as a CUDA graph, if that is possible."""
    several = "several processes train" if processes.count > 1 else ""
    reason = several or reason_against(step)
    if reason:
        log.info("cuda_graph: %s, so iterations run eagerly.", reason)
        return step
    return Recorded(step, CudaRecorder)


def _loggers(plan: Plan, folder: Path | None, figures: Mapping[str, Scalar], *, label: str, group: str) -> list[Logger]:
    """Open the loggers of a run, given what its evaluation measures; see `RunDescription` for the rest."""
    config = plan.config
    parts, of_g = plan.parts, getattr(plan.choices["generator"].target, "measures", {})
    of_terms = {f"terms/{name}": term.measures for name, term in parts.terms.items()}
    measures = {**parts.loss.measures, **parts.augment.measures, **of_terms, **of_g, **figures}
    if folder is None:
        return [ProgressLogger(config.iterations, measures)]
    if plan.parts.loggers:
        for warning in check_loggers(plan):
            log.warning("%s", warning)
    origin = provenance(*distributions())
    before = read(folder)  # the logger of the folder writes that the run goes on
    try:
        meanings = {key: asdict(measure) for key, measure in measures.items()}
        rows = FolderLogger(
            folder, resumed=plan.checkpoint is not None, config=plan.values, provenance=origin, measures=meanings
        )
    except FolderLocked as error:
        raise UserError(f"{folder} is in use ({error}): choose another hydra.run.dir, or wait.") from error
    name = f"{name_of(config.dataset)}-{name_of(config.loss)}-{name_of(config.strategy)}-seed{config.seed}"
    run = RunDescription(folder, name, label, group, plan.values | {"provenance": origin}, measures, before)
    always: list[Logger] = [rows, ProgressLogger(config.iterations, measures)]
    return [*always, *_opened(plan, run, rows)] if plan.parts.loggers else always


def _opened(plan: Plan, run: RunDescription, rows: FolderLogger) -> Collection[Logger]:
    """Open the chosen loggers; if one cannot be opened, the earlier ones are closed, and that of the folder as well."""
    loggers = copy.deepcopy(plan.parts.loggers)  # a plan may be built more than once
    never_begun = Summary(state="failed", iteration=0, wall_s=0.0, notes=[], paths={}, last={})
    with ExitStack() as begun:
        begun.callback(rows.abandon)
        for key, logger in loggers.items():
            try:
                with plan.choices[key].saying():
                    logger.open(run)
            except OSError as error:
                raise UserError(f"{key} cannot write: {error}.") from error
            begun.callback(logger.close, never_begun)
        begun.pop_all()
    return loggers.values()


def _say_if_heavy(plan: Plan) -> None:
    """Warn at the start if a run on a CPU will take very long."""
    config = plan.config
    if plan.demands is None:
        return
    flop = plan.demands.flop(config.batch_size, config.d_steps, config.g_steps, g_batch=config.g_batch)
    flop /= plan.processes.count
    hours = config.iterations * flop / (CPU_FLOPS * torch.get_num_threads()) / 3600
    if hours > PATIENCE_HOURS:
        log.warning(
            "This is a lot for a CPU: %s iterations of about %.3g GFLOP may take %.2g hours here; "
            "a GPU, or a lower batch_size, dataset.image_size or width of the networks, makes them shorter.",
            f"{config.iterations:,}",
            flop / 1e9,
            hours,
        )
