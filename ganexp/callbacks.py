"""What Hydra calls before a run or a sweep begins, and after a sweep ends."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from ganexp.checking import check, plain, refuse_unknown_metric, refuse_used_folder
from ganexp.command_line import one_option_per_group, report, shown
from ganexp.config import ConfigError
from ganexp.logbook.wandb_account import settled
from ganexp.resuming import located, newest_alike
from ganexp.sweeping import Sweep, results, table, write_csv


class RefuseBadConfig(Callback):
    """Ends a single run with one sentence before its folder is made."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the composed configuration; Hydra calls this before anything else."""
        with _ending_in_a_sentence():
            _check(config)
            if config.resume is not None:
                _resume(config)
            else:
                refuse_used_folder(Path(config.hydra.run.dir))  # before Hydra overwrites what it keeps there


class KeepSweep(Callback):
    """Checks a sweep before its folder is made, records it there, and ends it with a table."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Refuse a used folder, what no job can be composed of, and a grid without any job that fits."""
        with _ending_in_a_sentence():
            folder = Path(config.hydra.sweep.dir)
            _check_launcher(config)
            _check_metric(config)
            _prepare_storage(config)
            if config.sweep.resume is not None:
                return
            if (folder / "sweep.json").exists():
                remedy = f"choose another hydra.sweep.dir, or continue it with sweep.resume={folder}"
                raise ConfigError(f"{folder} holds a sweep already: {remedy}.")
            overrides = [str(override) for override in config.hydra.overrides.task]
            parsed = _parsed(
                [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()] + overrides
            )
            differing = tuple(dict.fromkeys(one.get_key_element().lstrip("+") for one in parsed if one.is_sweep_override()))
            jobs = _grid(parsed) if config.hydra.sweeper._target_.endswith(".BasicSweeper") else ()
            _check_jobs(config, jobs)
            given = [str(override) for override in config.hydra.overrides.hydra if not override.startswith("hydra.mode=")]
            Sweep((*given, *overrides), differing, tuple(jobs), config.sweep.metric).save(folder)
        if jobs:
            print(f"{len(jobs)} jobs in {shown(folder)}; if interrupted: python {sys.argv[0]} -m sweep.resume={shown(folder)}")

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table, write it as CSV, and fail if a job has."""
        folder = Path(config.hydra.sweep.dir)
        print(f"\n{table(folder)}\n\nWritten to {shown(write_csv(folder))}")
        states = {job["job"]: job["state"] for job in results(folder)}
        failed = [str(job) for job, state in states.items() if state not in ("finished", "skipped")]
        if failed:
            raise SystemExit(f"Error: job {', '.join(failed)} failed; its train.log says why.")
        if "finished" not in states.values():
            raise SystemExit("Error: every job was skipped; the table says why.")


@contextmanager
def _ending_in_a_sentence() -> Iterator[None]:
    """End the program as `report` says: Hydra would make a warning of an exception in a callback."""
    try:
        yield
    except ConfigError as error:
        raise SystemExit(f"Error: {error}") from None
    except Exception as error:
        raise SystemExit(report(error)) from None


def _resume(config: DictConfig) -> None:
    """Find the checkpoint to go on from and its run folder; with `auto`, begin a new run if there is none."""
    values = plain(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))
    checkpoint = newest_alike(values, Path(config.hydra.run.dir).parent) if config.resume == "auto" else located(config.resume)
    with read_write(config), open_dict(config):
        config.resume = str(checkpoint) if checkpoint else None
        if checkpoint:
            config.hydra.run.dir = str(checkpoint.parent.parent)


def _check(config: DictConfig) -> None:
    one_option_per_group(config, config.hydra.runtime.choices)
    checked = check(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))
    try:
        settled(checked.wandb.mode)
    except ValueError as error:
        raise ConfigError(f"{error}.") from None


def _check_launcher(config: DictConfig) -> None:
    if config.hydra.launcher._target_.endswith(".SlurmLauncher") and not shutil.which("srun"):
        raise ConfigError(
            "hydra/launcher=slurm needs a SLURM cluster, and there is no srun on this machine: begin the sweep on one of the "
            "cluster's login nodes, or choose hydra/launcher=parallel."
        )


def _check_metric(config: DictConfig) -> None:
    metric, searching = config.sweep.metric, "Optuna" in config.hydra.sweeper._target_
    if searching and metric is None:
        raise ConfigError("sweep.metric must say what a search is to optimise, for example sweep.metric=began/convergence.")
    refuse_unknown_metric("sweep.metric", metric)


def _prepare_storage(config: DictConfig) -> None:
    """Make the folder of a study that is kept in a file; Optuna does not."""
    storage = str(config.hydra.sweeper.get("storage") or "")
    if storage.startswith("sqlite:///"):
        Path(storage.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("SQLALCHEMY_SILENCE_UBER_WARNING", "1")  # which is about Optuna's own code


def _parsed(overrides: Sequence[str]) -> list[Override]:
    return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(list(overrides))


def _grid(parsed: list[Override]) -> tuple[tuple[str, ...], ...]:
    (jobs,) = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    return tuple(tuple(job) for job in jobs)


def _check_jobs(config: DictConfig, jobs: Sequence[Sequence[str]]) -> None:
    """Compose all jobs, and refuse the sweep if none of them could run; one that could is enough to begin."""
    loader = GlobalHydra.instance().config_loader()
    first_error, one_fits = None, False
    for job in jobs:
        composed = loader.load_sweep_config(config, list(job))
        if one_fits:
            continue
        try:
            _check(composed)
            one_fits = True
        except ConfigError as error:
            first_error = first_error or error
    if first_error and not one_fits:
        raise first_error
