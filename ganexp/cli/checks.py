"""Checks before a run or a sweep begins, beyond those of the configuration itself."""

import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from logging.handlers import BufferingHandler
from typing import TYPE_CHECKING, Any

from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from ganexp.cli.hydra_errors import composing
from ganexp.cli.naming import typed_overrides
from ganexp.cli.state import state
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.config.schema import AUTO, GROUPS, LISTS, ConfigError

if TYPE_CHECKING:
    from ganexp.config.check import Plan
    from ganexp.distributed.processes import Processes


def check_run(config: DictConfig, *, processes: int = 1) -> "Plan":
    """Check the composed configuration of a run, Hydra's part included."""
    refuse_change_of_folder(config)
    settle_groups(config, config.hydra)
    values = plain(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))
    parse(values)  # most mistakes are found here, before seconds are spent on importing torch
    from ganexp.config.check import check, check_loggers

    plan = check(values, trust=config.trust, processes=processes)
    check_loggers(plan)
    return plan


def obtain_run(plan: "Plan", processes: "Processes | None" = None) -> None:
    """Obtain what a checked run needs, and keep what is logged meanwhile until the run has a folder for its log."""
    from ganexp.config.run_data import obtain  # imports torch

    root, keeping = logging.getLogger(), BufferingHandler(sys.maxsize)
    handlers, root.handlers = root.handlers, [keeping]
    try:
        state.obtained = obtain(plan, processes)
        state.messages = keeping.buffer
    except ConfigError:
        root.handlers = handlers
        for message in keeping.buffer if processes is None or processes.writes else ():  # there will be no log to hold them
            root.handle(message)
        raise
    finally:
        root.handlers = handlers


def refuse_change_of_folder(config: DictConfig) -> None:
    """Refuse to let Hydra change the working directory when a run begins: relative paths would then mean other places."""
    if config.hydra.job.chdir:
        raise ConfigError("hydra.job.chdir=true would make relative paths mean places below the run folder: leave it out.")


def check_sweep(config: DictConfig, differing: Sequence[str]) -> None:
    """Check a sweep's numbers, launcher and metric; if the loss, augment or experiment differs, each job checks the metric."""
    for key in ("max_batch_size", "n_jobs", "n_trials"):
        number = config.hydra.sweeper.get(key)
        if number is not None and number < 1:
            raise ConfigError(f"hydra.sweeper.{key} should be 1 or more, not {number}.")
    if config.hydra.launcher._target_.endswith(".SlurmLauncher") and not shutil.which("srun"):
        raise ConfigError(
            "hydra/launcher=slurm needs a SLURM cluster, and there is no srun on this machine: start the sweep on one of the "
            "cluster's login nodes, or choose hydra/launcher=parallel."
        )
    metric = config.sweep.metric
    if is_search(config) and metric is None:
        raise ConfigError("sweep.metric must name what a search optimises, for example sweep.metric=began/convergence.")
    if metric is not None and not {"loss", "augment", "experiment"} & {key.partition(".")[0] for key in differing}:
        from ganexp.config.metrics import refuse_unknown_metric  # imports torch

        refuse_unknown_metric("sweep.metric", metric, plain(config.loss), plain(config.augment), config.trust)


def settle_direction(config: DictConfig, typed: bool) -> str:
    """Return which values of `sweep.metric` are best, and set a search's `hydra.sweeper.direction`, which means the same.

    Args:
        config: The configuration of the sweep.
        typed: Whether `hydra.sweeper.direction` was given on the command line.
    """
    asked, metric, trust = str(config.sweep.direction), config.sweep.metric, config.trust
    if not is_search(config) or metric is None:
        return asked
    of_search = config.hydra.sweeper.direction
    of_search = getattr(of_search, "name", of_search)
    if not isinstance(of_search, str):
        return asked
    if asked == "auto":
        from ganexp.config.metrics import high_is_best  # imports torch

        highest = high_is_best(metric, plain(config.loss), plain(config.augment), trust, plain(config.measure))
        asked = "maximize" if highest and not typed else of_search
    elif typed and asked != of_search:
        raise ConfigError(f"sweep.direction={asked} contradicts hydra.sweeper.direction={of_search}: leave out one of them.")
    with read_write(config), open_dict(config):
        config.hydra.sweeper.direction = asked
    return asked


def check_jobs(config: DictConfig, jobs: Sequence[Sequence[str]]) -> None:
    """Compose all jobs of a sweep, and check them until one is found that could run, which is enough to begin."""
    loader = GlobalHydra.instance().config_loader()
    first_error, one_fits = None, False
    for job in jobs:
        with composing():
            composed = loader.load_sweep_config(config, list(job))
        if one_fits:
            continue
        try:
            if missing := check_run(composed).missing:
                raise ConfigError(" ".join(missing))
            one_fits = True
        except ConfigError as error:
            first_error = first_error or error
    if first_error and not one_fits:
        raise first_error


def is_search(config: DictConfig) -> bool:
    """Return whether a sweeper chooses the jobs of a sweep as it goes, to optimise something."""
    return "Optuna" in config.hydra.sweeper._target_


def settle_groups(cfg: DictConfig, hydra: Any) -> None:
    """Drop a preset's settings for list members that are not chosen: `experiment=grid penalty=[r1]` takes r1 alone."""
    refuse_mixed_groups(cfg, hydra.runtime.choices)
    typed = [one.lstrip("+") for one in typed_overrides(hydra)]
    with read_write(cfg), open_dict(cfg):
        for group in filter(lambda group: OmegaConf.is_dict(cfg[group]), LISTS):
            settings = [name for name, node in cfg[group].items() if OmegaConf.is_dict(node) and "_target_" not in node]
            for name in settings:
                if name != AUTO and not any(one.startswith((f"{group}.{name}.", f"{group}.{name}=")) for one in typed):
                    del cfg[group][name]


def refuse_mixed_groups(cfg: DictConfig, choices: Mapping[str, Any]) -> None:
    """Refuse `loss=[hinge,wgan]`, which Hydra merges into one loss; it records no choice for such a group."""
    for group, node in cfg.items():
        if OmegaConf.is_dict(node) and "name" in node and group in GROUPS and group not in (*choices, *LISTS):
            raise ConfigError(f"{group!s} mixes several options into one: choose one of them, or sweep over them with -m.")
