"""From a configuration to a trainer: every object is built here, after every check in `ganexp.checking`."""

import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ganexp.checking import check, device_of, dtype_of, name_of, plain, precision_of, refuse_used_folder, strategy_of
from ganexp.config import Config, ConfigError
from ganexp.data import Dataset, Resident, Streamed, default_folder, feed, load_cached
from ganexp.demands import CPU_FLOPS, demands
from ganexp.gan import GAN
from ganexp.logbook import Book, FolderBook, ProgressBook, WandbBook, runs
from ganexp.logbook.wandb_account import settled
from ganexp.prior import Prior
from ganexp.provenance import provenance
from ganexp.targets import Trust, make
from ganexp.training import EMA, CheckpointError, NoEMA, Stopping, Trainer, cuda_graph, execution
from ganexp.training.checkpoint import State, contradictions, load
from ganexp.training.trainer import Strategy

log = logging.getLogger(__name__)
PATIENCE_HOURS = 0.5


def build(
    cfg: Any,
    folder: str | Path | None = None,
    *,
    checkpoint: str | Path | None = None,
    stopping: Stopping | None = None,
    trust: Trust = (),
) -> Trainer:
    """Build a trainer from a composed configuration.

    Seeds torch's global random stream, which initialises the networks.

    Args:
        cfg: A configuration composed by Hydra, or the same as plain dictionaries.
        folder: The run folder. Without one, nothing is written, neither there nor to W&B.
        checkpoint: A file to go on from, of a run with the same configuration; its rows are gone on with in `folder`.
        stopping: What tells that a signal has asked the run to stop.
        trust: Modules beside ganexp's whose classes and functions `cfg` may name, as in `trust=["mine"]`; None is any,
            for a configuration that is your own.

    Raises:
        ConfigError: The configuration has a mistake, two choices do not fit, the checkpoint does not, or a target is
            of a module that is not trusted.
    """
    values = plain(cfg)
    config = check(values, trust=trust)
    state = loaded(Path(checkpoint), values) if checkpoint else None
    if folder and state is None:
        refuse_used_folder(Path(folder))
    device, dtype = device_of(config.device), dtype_of(config)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # for events, pinned memory and everything else that asks for the current one
    execution.set_up(
        device,
        precision_of(config),
        deterministic=config.deterministic,
        threads=None if config.threads == "auto" else config.threads,
    )
    if folder:
        log.info("Training in %s, on %s, in %s.", folder, execution.described(device), precision_of(config))
    torch.manual_seed(config.seed)
    dataset = make(config.dataset, "dataset")
    generator = make(config.generator, "generator", config.latent_dim, dataset.shape).to(device, dtype)
    discriminator = make(config.discriminator, "discriminator", dataset.shape).to(device, dtype)
    for key, network in {"generator": generator, "discriminator": discriminator}.items():
        count = sum(parameter.numel() for parameter in network.parameters())
        log.info("%s=%s: %s parameters.", key, name_of(getattr(config, key)), f"{count:,}")
    if folder:
        _say_if_heavy(config, generator, discriminator)
    ema = _execute(config, generator, discriminator)
    prior = Prior(config.latent_dim, config.prior, seed=config.seed, device=device, dtype=dtype)
    penalty = make(config.penalty, "penalty")
    penalty.seed = config.seed
    gan = GAN(
        generator,
        discriminator,
        make(config.loss, "loss").to(device, dtype),
        make(config.optimizer["g"], "optimizer.g", generator.parameters()),
        make(config.optimizer["d"], "optimizer.d", discriminator.parameters()),
        prior,
        batch_size=config.batch_size,
        penalty=penalty,
        redundant_gradients=config.redundant_gradients,
        autocast=torch.bfloat16 if precision_of(config) == "bf16" else None,
    )
    strategy = strategy_of(config)
    trainer = Trainer(
        gan,
        _reals(config, dataset),
        strategy,
        iterations=config.iterations,
        d_steps=config.d_steps,
        g_steps=config.g_steps,
        log_every=config.log_every,
        sample_every=config.sample_every,
        checkpoint_every=config.checkpoint_every,
        ema=ema,
        folder=Path(folder) if folder else None,
        config=values,
        keep_checkpoints=config.keep_checkpoints,
        keep_best=config.keep_best,
        stopping=stopping,
        on_divergence=config.on_divergence,
        cuda_graph=_records(config, strategy),
        shape=dataset.shape,
    )
    if state is not None:
        try:
            trainer.resume(state)
        except CheckpointError as error:
            raise ConfigError(f"resume: {error}.") from error
    trainer.books = _books(config, values, Path(folder) if folder else None, resumed=state is not None)
    if state is not None:
        for book in trainer.books:
            book.rewind(trainer.iteration)
        trainer.last_row = {**runs.read(Path(folder)).last} if folder else {}
    return trainer


def _reals(config: Config, dataset: Dataset) -> Resident | Streamed:
    """Bring the data to where batches are drawn from."""
    device = device_of(config.device)
    workers = min(16, torch.get_num_threads()) if config.workers == "auto" else config.workers  # a share, beside other jobs
    try:
        data = load_cached(dataset, default_folder(), place=config.feed, device=device, workers=workers)
        digest = getattr(dataset, "digest", str)()  # of synthetic data the configuration says all
    except OSError as error:
        said = str(error).strip().splitlines()[-1].removeprefix("OSError: ")  # a worker's error comes with its traceback
        raise ConfigError(f"dataset: {said}.") from error
    count = len(data)  # type: ignore[arg-type]  # a map-style dataset may have no length; those of a feed do
    log.info("dataset=%s: %s samples of %s.", name_of(config.dataset), f"{count:,}", "×".join(map(str, dataset.shape)))
    return feed(
        data,
        config.batch_size,
        seed=config.seed,
        device=device,
        dtype=dtype_of(config),
        place=config.feed,
        workers=workers,
        flip=config.flip,
        digest=digest,
    )


def _say_if_heavy(config: Config, generator: nn.Module, discriminator: nn.Module) -> None:
    """Say at the start how long a run on a CPU will take, if that is longer than most people wait."""
    if device_of(config.device).type != "cpu":
        return
    try:
        asked = demands(generator, discriminator, config.latent_dim)
    except RuntimeError:  # networks that look at values cannot be counted
        return
    flop = asked.flop(config.batch_size, config.d_steps, config.g_steps)
    hours = config.iterations * flop / (CPU_FLOPS * torch.get_num_threads()) / 3600
    if hours > PATIENCE_HOURS:
        log.warning(
            "This is much for a CPU: %s iterations of about %.3g GFLOP may take %.2g hours here; "
            "a GPU, or a lower batch_size, dataset.image_size or width of the networks, makes them shorter.",
            f"{config.iterations:,}",
            flop / 1e9,
            hours,
        )


def _execute(config: Config, generator: nn.Module, discriminator: nn.Module) -> NoEMA:
    """Settle how the networks are executed, and copy the generator for its average before it is compiled."""
    device, precision = device_of(config.device), precision_of(config)
    for network in (generator, discriminator):
        wanted = config.channels_last
        if wanted is True or (wanted == "auto" and execution.prefers_channels_last(network, device, precision)):
            execution.channels_last(network)
    if precision == "bf16":
        execution.last_layer_in_float32(discriminator)
    ema = EMA(generator, config.ema) if isinstance(config.ema, float) else NoEMA(generator)
    if config.compile:
        execution.compiled(generator, discriminator)
    return ema


def _records(config: Config, strategy: Strategy) -> bool:
    """Say whether iterations are to be recorded as a CUDA graph, and if that cannot be, why."""
    if device_of(config.device).type == "cpu" or config.cuda_graph is False:
        return False
    reason = cuda_graph.reason_against(strategy)
    if reason:
        log.info("cuda_graph: %s, so iterations run eagerly.", reason)
    return not reason


def loaded(path: Path, values: dict[str, Any]) -> State:
    """Read a checkpoint of a run with the same configuration that is not finished, if only by not having said so.

    Raises:
        ConfigError: It cannot be gone on with.
    """
    try:
        state = load(path)
    except CheckpointError as error:
        raise ConfigError(f"resume: {error}.") from error
    moved = ("dataset.path", "dataset.root") if state.get("data") else ()  # whether it is the same, the digest tells
    differing = [key for key in contradictions(state["config"], values) if key not in moved]
    if differing:
        keys = ", ".join(sorted({key.removesuffix(".name").removesuffix("._target_") for key in differing}))
        keys = " ".join(keys.split())[:200]  # those of the file may be anything
        raise ConfigError(
            f"resume: {path} was trained with other values of {keys}: leave them as they were, or begin a new run."
        )
    ended = runs.read_document(path.parent.parent / "summary.json").get("state") == "finished"
    if state["iteration"] > values["iterations"] or (state["iteration"] == values["iterations"] and ended):
        raise ConfigError(
            f"resume: {path} has all of its {state['iteration']} iterations: give it more, as in iterations=10000."
        )
    return state


def _books(config: Config, values: dict[str, Any], folder: Path | None, *, resumed: bool) -> list[Book]:
    if folder is None:
        return [ProgressBook(config.iterations)]
    try:
        disabled = settled(config.wandb.mode) == "disabled"
    except ValueError as error:
        raise ConfigError(f"{error}.") from None
    origin = provenance()
    try:
        rows = FolderBook(folder, resumed=resumed, config=values, provenance=origin)
    except FileExistsError as error:
        raise ConfigError(f"{folder} is taken ({error}): choose another hydra.run.dir, or wait.") from error
    try:
        to_wandb = [] if disabled else [_wandb_book(config, values | {"provenance": origin}, folder)]
    except ConfigError:
        rows.close("failed")
        if not resumed:
            (folder / "metrics.jsonl").unlink()  # so that the folder is free again
        raise
    return [rows, ProgressBook(config.iterations), *to_wandb]


def _wandb_book(config: Config, values: dict[str, Any], folder: Path) -> WandbBook:
    assert config.wandb.mode != "disabled"
    before = runs.read(folder)
    directory = config.wandb.directory or os.environ.get("WANDB_DIR") or "outputs"
    name = f"{name_of(config.dataset)}-{name_of(config.loss)}-{name_of(config.strategy)}-seed{config.seed}"
    try:
        book = WandbBook(
            mode=config.wandb.mode,
            directory=directory,
            config=values,
            entity=config.wandb.entity,
            project=config.wandb.project or os.environ.get("WANDB_PROJECT") or "ganexp",
            group=config.wandb.group,
            tags=config.wandb.tags,
            name=config.wandb.name or os.environ.get("WANDB_NAME") or name,
            notes=config.wandb.notes,
            before=before,
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "wandb_id").write_text(f"{book.run.id}\n")
        return book
    except OSError as error:
        raise ConfigError(f"wandb.directory={directory} cannot be written: {error}.") from error
    except ValueError as error:
        raise ConfigError(f"{error}.") from error
