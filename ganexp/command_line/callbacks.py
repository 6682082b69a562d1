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

from ganexp.command_line.jobs import asked, command_to_go_on, one_option_per_group, report, stopped_together, tell_workers
from ganexp.command_line.naming import CHOICES, rename, run_name, shown, typed
from ganexp.command_line.resuming import located, newest_alike, options, quoted
from ganexp.command_line.sweeping import Sweep, results, table, write_csv
from ganexp.configuration.books import refuse_used_folder
from ganexp.configuration.check import check, plain
from ganexp.configuration.measured import refuse_unknown_metric
from ganexp.configuration.resume import loaded
from ganexp.configuration.schema import ConfigError
from ganexp.runs import reading as runs
from ganexp.runs.folder import claim, is_claimed
from ganexp.runs.wandb_account import settled

OmegaConf.register_new_resolver("ganexp.run_name", lambda *, _root_: run_name(_root_), replace=True)


class RefuseBadConfig(Callback):
    """Ends a single run with one sentence before anything is written, and gives it a folder that is its own."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the composed configuration; Hydra calls this before anything else."""
        with _ending_in_a_sentence():
            rename(config, typed(config.hydra))
            _check(config)
            checkpoint = _checkpoint_to_resume(config) if config.resume is not None else None
            given = any(str(one).startswith("hydra.run.dir=") for one in config.hydra.overrides.hydra)
            with read_write(config), open_dict(config):
                config.resume = _literal(checkpoint) if checkpoint else None
                if checkpoint:
                    config.hydra.run.dir = _literal(checkpoint.parent.parent)
                    config.hydra.output_subdir = None  # what Hydra has written there stays as it is
                elif not given:
                    config.hydra.run.dir = _raw(config.hydra.run, "dir").replace(CHOICES, run_name(config))
                    config.hydra.run.dir = _literal(_made(Path(config.hydra.run.dir)))
            folder = Path(config.hydra.run.dir)
            if checkpoint is None:
                refuse_used_folder(folder)
            _claim(folder, "choose another hydra.run.dir, or wait")


class KeepSweep(Callback):
    """Checks a sweep before its folder is made, records it there, and ends it with a table."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Refuse a used folder, what no job can be composed of, and a grid without any job that fits."""
        with _ending_in_a_sentence():
            folder = Path(config.hydra.sweep.dir)
            _check_launcher(config)
            given = [str(override) for override in config.hydra.overrides.hydra if not override.startswith("hydra.mode=")]
            _name_jobs(config)
            if config.sweep.resume is not None:
                _claim(folder, "wait for it, or end it")
                _refuse_running_jobs(folder)
                _stop_with_workers(config)
                return
            if (folder / "sweep.json").exists():
                remedy = f"choose another hydra.sweep.dir, or continue it with sweep.resume={folder}"
                raise ConfigError(f"{folder} holds a sweep already: {remedy}.")
            overrides = typed(config.hydra)
            parsed = _parsed(
                [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()] + overrides
            )
            differing = tuple(dict.fromkeys(one.get_key_element().lstrip("+") for one in parsed if one.is_sweep_override()))
            _check_metric(config, differing)
            jobs = _grid(parsed) if config.hydra.sweeper._target_.endswith(".BasicSweeper") else ()
            _check_jobs(config, jobs)
            _prepare_storage(config)
            if not any(override.startswith("hydra.sweep.dir=") for override in given):
                folder = _made(folder)
                config.hydra.sweep.dir = _literal(folder)
                config.hydra.overrides.hydra.append(quoted("hydra.sweep.dir", folder))  # which jobs are composed of
            _claim(folder, "choose another hydra.sweep.dir, or wait")
            places, _ = options(sys.argv[1:])
            Sweep((*given, *overrides), differing, tuple(jobs), config.sweep.metric, tuple(places)).save(folder)
            _stop_with_workers(config)
        if jobs:
            print(f"{len(jobs)} jobs in {shown(folder)}; if interrupted: {command_to_go_on(folder, sweep=True)}")

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table, write it as CSV, and fail if a job has."""
        folder = Path(config.hydra.sweep.dir)
        print(f"\n{table(folder)}\n\nWritten to {shown(write_csv(folder))}")
        stopped_together(folder)
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


def _checkpoint_to_resume(config: DictConfig) -> Path | None:
    """Find the checkpoint to go on from, and refuse what does not fit; with `auto`, None if there is none."""
    values = plain(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))
    checkpoint = newest_alike(values, Path(config.hydra.run.dir).parent) if config.resume == "auto" else located(config.resume)
    if checkpoint:
        loaded(checkpoint, values)
    return checkpoint


def _made(folder: Path) -> Path:
    """Make a folder that is nobody else's: where another run has taken the name in this very second, one with a number."""
    number, mine = 1, folder
    while True:
        try:
            mine.mkdir(parents=True)
            return mine
        except FileExistsError:
            number += 1
            mine = folder.with_name(f"{folder.name}_{number}")


def _claim(folder: Path, remedy: str) -> None:
    """Keep other processes out of a folder for as long as this one lives, or its book is open.

    Raises:
        ConfigError: The folder is taken, or cannot be made or locked.
    """
    try:
        claim(folder)
    except FileExistsError as error:
        raise ConfigError(f"{folder} is taken ({error}): {remedy}.") from None
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made and locked ({error}): {remedy}.") from None


def _refuse_running_jobs(folder: Path) -> None:
    """Refuse to go on with a sweep whose jobs have outlived the process that began them.

    Raises:
        ConfigError: A job is being trained.
    """
    running = [path.name for path in runs.find(folder) if is_claimed(path)]
    if running:
        raise ConfigError(f"sweep.resume={folder}: {', '.join(running)} is still being trained: wait for it, or end it.")


def _stop_with_workers(config: DictConfig) -> None:
    """Where jobs run in processes beside this one, let them finish what they do when this one is asked to stop."""
    if "n_jobs" in config.hydra.launcher:
        asked.when_received(tell_workers)
        asked.__enter__()


def _name_jobs(config: DictConfig) -> None:
    """Have jobs named by what was changed as well; they are composed of these overrides in processes of their own."""
    subdir = _raw(config.hydra.sweep, "subdir")
    if CHOICES in subdir:
        config.hydra.overrides.hydra.append(f"hydra.sweep.subdir={subdir.replace(CHOICES, '${ganexp.run_name:}')}")


def _raw(node: DictConfig, key: str) -> str:
    """Return a value as it is written, with its interpolations."""
    return str(OmegaConf.to_container(node, resolve=False)[key])  # type: ignore[index, call-overload]


def _literal(path: Path) -> str:
    """Return a path as a value of a configuration, in which nothing is to be resolved."""
    return str(path).replace("${", "\\${")


def _check(config: DictConfig) -> None:
    one_option_per_group(config, config.hydra.runtime.choices)
    checked = check(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]), trust=config.trust)
    try:
        settled(checked.config.wandb.mode)
    except ValueError as error:
        raise ConfigError(f"{error}.") from None


def _check_launcher(config: DictConfig) -> None:
    if config.hydra.launcher._target_.endswith(".SlurmLauncher") and not shutil.which("srun"):
        raise ConfigError(
            "hydra/launcher=slurm needs a SLURM cluster, and there is no srun on this machine: begin the sweep on one of the "
            "cluster's login nodes, or choose hydra/launcher=parallel."
        )


def _check_metric(config: DictConfig, differing: Sequence[str]) -> None:
    metric, searching = config.sweep.metric, "Optuna" in config.hydra.sweeper._target_
    if searching and metric is None:
        raise ConfigError("sweep.metric must say what a search is to optimise, for example sweep.metric=began/convergence.")
    if not {"loss", "experiment"} & {key.partition(".")[0] for key in differing}:  # or else each job is checked with its own
        refuse_unknown_metric("sweep.metric", metric, plain(config.loss), config.trust)


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
