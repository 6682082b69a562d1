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
from ganexp.data import feed
from ganexp.gan import GAN
from ganexp.logbook import Book, FolderBook, ProgressBook, WandbBook
from ganexp.losses import Loss
from ganexp.one_pass import refuse_interacting_images
from ganexp.prior import Prior
from ganexp.strategies import Lookahead, one_stage
from ganexp.training import EMA, NoEMA, Trainer
from ganexp.training.trainer import Strategy

log = logging.getLogger(__name__)
DTYPES = {"fp32": torch.float32, "fp64": torch.float64}


def build(cfg: Any, folder: str | Path | None = None) -> Trainer:
    """Build a trainer from a composed configuration.

    Seeds torch's global random stream, which initialises the networks.

    Args:
        cfg: A configuration composed by Hydra, or the same as plain dictionaries.
        folder: The run folder. Without one, nothing is written, neither there nor to W&B.

    Raises:
        ConfigError: The configuration has a mistake, or two choices do not fit.
    """
    values = plain(cfg)
    config = check(values)
    device, dtype = _device(config.device), DTYPES[config.precision]
    if device.type == "cuda":
        torch.cuda.set_device(device)  # for events, pinned memory and everything else that asks for the current one
    torch.manual_seed(config.seed)
    dataset = make(config.dataset, "dataset")
    generator = make(config.generator, "generator", config.latent_dim, dataset.shape).to(device, dtype)
    discriminator = make(config.discriminator, "discriminator", dataset.shape).to(device, dtype)
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
    try:
        data = dataset.load()
    except OSError as error:
        raise ConfigError(f"dataset: {str(error).splitlines()[0]}.") from error
    reals = feed(data, config.batch_size, seed=config.seed, device=device, dtype=dtype, workers=config.workers)
    return Trainer(
        gan,
        reals,
        _strategy(config),
        iterations=config.iterations,
        d_steps=config.d_steps,
        g_steps=config.g_steps,
        log_every=config.log_every,
        sample_every=config.sample_every,
        checkpoint_every=config.checkpoint_every,
        ema=EMA(generator, config.ema) if isinstance(config.ema, float) else NoEMA(generator),
        books=_books(config, values, Path(folder) if folder else None),
        folder=Path(folder) if folder else None,
        config=values,
    )


def check(cfg: Any) -> Config:
    """Check a configuration without reading data, taking memory or writing anything, and return it parsed.

    The networks are built and run on torch's meta device, where tensors have shapes but no memory.

    Raises:
        ConfigError: The configuration has a mistake, or two choices do not fit.
    """
    config = parse(plain(cfg))
    _device(config.device)
    shape = tuple(make(config.dataset, "dataset").shape)
    loss, penalty = make(config.loss, "loss"), make(config.penalty, "penalty")
    if not isinstance(loss, Loss):
        raise ConfigError(f"loss._target_={config.loss['_target_']} must be a ganexp.losses.Loss.")
    _strategy(config)
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
    if scores.shape != (2,):
        raise ConfigError(f"discriminator must return one score per sample, (2,) for two, not {tuple(scores.shape)}.")
    return discriminator


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


def _books(config: Config, values: dict[str, Any], folder: Path | None) -> list[Book]:
    if folder is None:
        return [ProgressBook(config.iterations)]
    refuse_used_folder(folder)
    disabled = config.wandb.mode == "disabled" or (config.wandb.mode == "auto" and os.environ.get("WANDB_MODE") == "disabled")
    to_wandb = [] if disabled else [_wandb_book(config, values)]
    return [FolderBook(folder), ProgressBook(config.iterations), *to_wandb]


def _wandb_book(config: Config, values: dict[str, Any]) -> WandbBook:
    assert config.wandb.mode != "disabled"
    name = f"{_name(config.dataset)}-{_name(config.loss)}-{_name(config.strategy)}-seed{config.seed}"
    try:
        return WandbBook(
            mode=config.wandb.mode,
            directory=config.wandb.directory,
            config=values,
            project=config.wandb.project,
            group=config.wandb.group,
            tags=config.wandb.tags,
            name=config.wandb.name or name,
        )
    except OSError as error:
        raise ConfigError(f"wandb.directory={config.wandb.directory} cannot be written: {error}.") from error


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


def _name(node: dict[str, Any]) -> str:
    return str(node.get("name", node["_target_"]))


def _remedy(output: str) -> str:
    if output == "logit":
        return "choose discriminator=began, or a loss on logits such as loss=nonsaturating"
    return "choose discriminator=dcgan or discriminator=mlp, or loss=began"
