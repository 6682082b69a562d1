"""From a configuration to a trainer: every object is built here, and every check that two choices fit is here."""

import copy
import functools
import inspect
import logging
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ganexp.config import Config, ConfigError, arguments, make, parse, target
from ganexp.data import Dataset, Resident, Streamed, feed, load_cached
from ganexp.gan import GAN
from ganexp.logbook import Book, FolderBook, ProgressBook, WandbBook, runs
from ganexp.logbook.keys import KEYS, may_be_logged
from ganexp.losses import Loss
from ganexp.one_pass import refuse_interacting_images
from ganexp.penalties import NoPenalty
from ganexp.prior import Prior
from ganexp.provenance import provenance
from ganexp.strategies import Lookahead, one_stage
from ganexp.training import EMA, CheckpointError, NoEMA, Stopping, Trainer, cuda_graph, execution
from ganexp.training.checkpoint import State, contradictions, load
from ganexp.training.trainer import Strategy

log = logging.getLogger(__name__)


def build(
    cfg: Any, folder: str | Path | None = None, *, checkpoint: str | Path | None = None, stopping: Stopping | None = None
) -> Trainer:
    """Build a trainer from a composed configuration.

    Seeds torch's global random stream, which initialises the networks.

    Args:
        cfg: A configuration composed by Hydra, or the same as plain dictionaries.
        folder: The run folder. Without one, nothing is written, neither there nor to W&B.
        checkpoint: A file to go on from, of a run with the same configuration; its rows are gone on with in `folder`.
        stopping: What tells that a signal has asked the run to stop.

    Raises:
        ConfigError: The configuration has a mistake, two choices do not fit, or the checkpoint does not.
    """
    values = plain(cfg)
    config = check(values)
    state = _loaded(Path(checkpoint), values) if checkpoint else None
    if folder and state is None:
        refuse_used_folder(Path(folder))
    device, dtype = _device(config.device), _dtype(config)
    if device.type == "cuda":
        torch.cuda.set_device(device)  # for events, pinned memory and everything else that asks for the current one
    execution.set_up(
        device,
        _precision(config),
        deterministic=config.deterministic,
        threads=None if config.threads == "auto" else config.threads,
    )
    torch.manual_seed(config.seed)
    dataset = make(config.dataset, "dataset")
    generator = make(config.generator, "generator", config.latent_dim, dataset.shape).to(device, dtype)
    discriminator = make(config.discriminator, "discriminator", dataset.shape).to(device, dtype)
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
    )
    strategy = _strategy(config)
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
    return trainer


def _reals(config: Config, dataset: Dataset) -> Resident | Streamed:
    """Bring the data to where batches are drawn from."""
    device = _device(config.device)
    workers = min(16, torch.get_num_threads()) if config.workers == "auto" else config.workers  # a share, beside other jobs
    cache = Path(config.data_root).expanduser() / "decoded"
    try:
        data = load_cached(dataset, cache, place=config.feed, device=device, workers=workers)
    except OSError as error:
        said = str(error).strip().splitlines()[-1].removeprefix("OSError: ")  # a worker's error comes with its traceback
        raise ConfigError(f"dataset: {said}.") from error
    return feed(
        data,
        config.batch_size,
        seed=config.seed,
        device=device,
        dtype=_dtype(config),
        place=config.feed,
        workers=workers,
        flip=config.flip,
    )


def _execute(config: Config, generator: nn.Module, discriminator: nn.Module) -> NoEMA:
    """Settle how the networks are executed, and copy the generator for its average before it is compiled."""
    device, precision = _device(config.device), _precision(config)
    for network in (generator, discriminator):
        wanted = config.channels_last
        if wanted is True or (wanted == "auto" and execution.prefers_channels_last(network, device, precision)):
            execution.channels_last(network)
        if precision == "bf16":
            execution.in_bfloat16(network)
    ema = EMA(generator, config.ema) if isinstance(config.ema, float) else NoEMA(generator)
    if config.compile:
        execution.compiled(generator, discriminator)
    return ema


def _records(config: Config, strategy: Strategy) -> bool:
    """Say whether iterations are to be recorded as a CUDA graph, and if that cannot be, why."""
    if _device(config.device).type == "cpu" or config.cuda_graph is False:
        return False
    reason = cuda_graph.reason_against(strategy)
    if reason:
        log.info("cuda_graph: %s, so iterations run eagerly.", reason)
    return not reason


def check(cfg: Any) -> Config:
    """Check a configuration without reading data, taking memory or writing anything, and return it parsed.

    The networks are built and run on torch's meta device, where tensors have shapes but no memory.

    Raises:
        ConfigError: The configuration has a mistake, or two choices do not fit.
    """
    config = parse(plain(cfg))
    _check_execution(config)
    refuse_unknown_metric("keep_best", config.keep_best)
    shape = tuple(make(config.dataset, "dataset").shape)
    loss, penalty = make(config.loss, "loss"), make(config.penalty, "penalty")
    if not isinstance(loss, Loss):
        raise ConfigError(f"loss._target_={config.loss['_target_']} must be a ganexp.losses.Loss.")
    strategy = _strategy(config)
    if config.flip and len(shape) != 3:
        raise ConfigError(f"flip=true mirrors images, and dataset={_name(config.dataset)} has none: choose flip=false.")
    _check_second_derivatives(config, penalty, strategy)
    for side in ("g", "d"):
        make(config.optimizer[side], f"optimizer.{side}", [nn.Parameter(torch.zeros(1))])
    discriminator = _check_networks(config, shape)
    output = getattr(discriminator, "output", getattr(target(config.discriminator, "discriminator"), "output", "logit"))
    if output not in loss.accepts:
        kinds = " or ".join(sorted(loss.accepts))
        raise ConfigError(
            f"loss={_name(config.loss)} needs a discriminator that returns {kinds} scores, and "
            f"discriminator={_name(config.discriminator)} returns {output} scores: {_remedy(output)}."
        )
    if penalty.needs_logits and output != "logit":
        raise ConfigError(
            f"penalty={_name(config.penalty)} needs a discriminator that returns logit scores, and "
            f"discriminator={_name(config.discriminator)} returns {output} scores: choose penalty=none."
        )
    if target(config.strategy, "strategy") is one_stage:
        try:
            refuse_interacting_images(discriminator, loss)
        except ValueError as error:
            raise ConfigError(f"strategy: {error}.") from None
    if penalty.needs_logits and any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in discriminator.modules()):
        log.warning("penalty=%s is meant for a discriminator without batch norm.", _name(config.penalty))
    return config


def _check_execution(config: Config) -> None:
    """Check what depends on the machine."""
    device = _device(config.device)
    _precision(config)
    if config.cuda_graph is True and device.type == "cpu":
        raise ConfigError(f"cuda_graph=true needs a GPU, and device={config.device} is none: choose cuda_graph=auto.")
    if config.precision == "bf16" and execution.slow_bf16(device):
        log.warning("precision=bf16 is emulated by this device, and slow.")


def _check_second_derivatives(config: Config, penalty: NoPenalty, strategy: Strategy) -> None:
    if not config.compile:
        return
    for key, one in {"penalty": penalty, "strategy": getattr(strategy, "strategy", strategy)}.items():
        if getattr(one, "differentiates_gradients", False):
            name = _name(getattr(config, key))
            raise ConfigError(f"{key}={name} differentiates gradients, which compiled networks cannot: choose compile=false.")


def _check_networks(config: Config, shape: tuple[int, ...]) -> nn.Module:
    discriminator = nn.Module()
    try:
        with torch.device("meta"), torch.no_grad():
            generator = make(config.generator, "generator", config.latent_dim, shape)
            discriminator = make(config.discriminator, "discriminator", shape)
            fake = generator(torch.zeros(2, config.latent_dim))
            if fake.shape[1:] != shape:
                raise ConfigError(f"generator makes samples of shape {tuple(fake.shape[1:])}, but the dataset's have {shape}.")
            scores = discriminator(fake)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if "meta tensor" in reason:  # a network that looks at values cannot be tried without them
            log.warning("The networks' shapes are not checked beforehand: %s", reason)
            return discriminator
        raise ConfigError(f"generator or discriminator cannot run on samples of shape {shape}: {reason}.") from error
    _check_memory(config, generator, discriminator)
    if scores.shape != (2,):
        raise ConfigError(f"discriminator must return one score per sample, (2,) for two, not {tuple(scores.shape)}.")
    return discriminator


def _check_memory(config: Config, *networks: nn.Module) -> None:
    """Refuse networks that no memory holds: weights, gradients, two moments and an average, before any is allocated."""
    device = _device(config.device)
    count = sum(parameter.numel() for network in networks for parameter in network.parameters())
    needed = 5 * count * _dtype(config).itemsize
    if device.type == "cuda":
        there = torch.cuda.get_device_properties(device).total_memory
    else:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ConfigError(
            f"generator and discriminator have {count:,} parameters, whose training takes {needed / 2**30:,.0f} GiB, and there "
            f"are {there / 2**30:,.0f} GiB: lower generator.width or discriminator.width."
        )


def _loaded(path: Path, values: dict[str, Any]) -> State:
    """Read a checkpoint and refuse it if it is of another configuration or has nothing left to train."""
    try:
        state = load(path)
    except CheckpointError as error:
        raise ConfigError(f"resume: {error}.") from error
    differing = contradictions(state["config"], values)
    if differing:
        keys = ", ".join(sorted({key.removesuffix(".name").removesuffix("._target_") for key in differing}))
        raise ConfigError(
            f"resume: {path} was trained with other values of {keys}: leave them as they were, or begin a new run."
        )
    if state["iteration"] >= values["iterations"]:
        raise ConfigError(
            f"resume: {path} has all of its {state['iteration']} iterations: give it more, as in iterations=10000."
        )
    return state


def refuse_unknown_metric(key: str, metric: str | None) -> None:
    """Refuse what no row will ever have.

    Raises:
        ConfigError: There is no such key of the rows.
    """
    if metric is not None and not may_be_logged(metric):
        raise ConfigError(f"{key}={metric} is not logged; choose one of {', '.join(sorted(KEYS))}.")


def refuse_used_folder(folder: Path) -> None:
    """Refuse a folder that holds a run, so that no two runs are mixed and nothing is overwritten.

    Raises:
        ConfigError: There are rows in the folder.
    """
    if (folder / "metrics.jsonl").exists():
        raise ConfigError(f"{folder} holds a run already: choose another hydra.run.dir.")


def plain(cfg: Any) -> dict[str, Any]:
    """Return a configuration as plain, resolved dictionaries of its own."""
    if isinstance(cfg, dict):
        return copy.deepcopy(cfg)
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        values = OmegaConf.to_container(cfg, resolve=True)
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{error.full_key or 'The configuration'} cannot be resolved: {reason}.") from error
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _books(config: Config, values: dict[str, Any], folder: Path | None, *, resumed: bool) -> list[Book]:
    if folder is None:
        return [ProgressBook(config.iterations)]
    disabled = config.wandb.mode == "disabled" or (config.wandb.mode == "auto" and os.environ.get("WANDB_MODE") == "disabled")
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
    name = f"{_name(config.dataset)}-{_name(config.loss)}-{_name(config.strategy)}-seed{config.seed}"
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
            run_id=before.wandb_id,
            written=before.rows[-1]["progress/iteration"] if before.rows else 0,
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "wandb_id").write_text(f"{book.run.id}\n")
        return book
    except OSError as error:
        raise ConfigError(f"wandb.directory={directory} cannot be written: {error}.") from error


def _strategy(config: Config) -> Strategy:
    function = target(config.strategy, "strategy")
    strategy: Strategy = (
        make(config.strategy, "strategy")
        if inspect.isclass(function)
        else functools.partial(function, **arguments(config.strategy))
    )
    if config.lookahead.every:
        return Lookahead(strategy, every=config.lookahead.every, alpha=config.lookahead.alpha)
    return strategy


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"device={name} is not there: torch sees {torch.cuda.device_count()} GPUs; choose device=auto.")
    return device


def _dtype(config: Config) -> torch.dtype:
    return torch.float64 if config.precision == "fp64" else torch.float32


def _precision(config: Config) -> execution.Precision:
    try:
        return execution.resolved(config.precision, _device(config.device))
    except ValueError as error:
        raise ConfigError(f"precision={error}.") from None


def _name(node: dict[str, Any]) -> str:
    return str(node.get("name", node["_target_"]))


def _remedy(output: str) -> str:
    if output == "logit":
        return "choose discriminator=began, or a loss on logits such as loss=nonsaturating"
    return "choose discriminator=dcgan or discriminator=mlp, or loss=began"
