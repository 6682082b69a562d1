"""What Hydra calls before a run or a sweep begins, and after a sweep ends."""

import os
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from ganexp.cli.checks import (
    check_jobs,
    check_run,
    check_sweep,
    is_search,
    obtain_run,
    refuse_change_of_folder,
    settle_direction,
)
from ganexp.cli.ending import command_to_resume
from ganexp.cli.errors import exiting_with_a_sentence
from ganexp.cli.folders import lock_or_refuse, make_new
from ganexp.cli.hydra_errors import composing, missing_plugin
from ganexp.cli.launching import is_distributed, prepare_together, refuse_distributed, restarted_since
from ganexp.cli.naming import CHOICES, rename_groups, run_name, short, typed_overrides
from ganexp.cli.recorded import config_options
from ganexp.cli.resuming import find_checkpoint, literal, newest_unfinished, quoted
from ganexp.cli.state import state
from ganexp.cli.sweeping import Results, Sweep, stopping
from ganexp.cli.sweeping.sharing import take_jobs_per_gpu
from ganexp.config.schema import ConfigError
from ganexp.logging import reading as runs
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import is_locked

OmegaConf.register_new_resolver("ganexp.run_name", lambda *, _root_: run_name(_root_), replace=True)


class PrepareRun(Callback):
    """Checks a single run before anything is written, and gives it a folder of its own."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the composed configuration, find the checkpoint to resume, and lock the run folder; Hydra calls this first."""
        state.composed = True
        with exiting_with_a_sentence():
            rename_groups(config, typed_overrides(config.hydra))
            if is_distributed():
                state.processes = prepare_together(config, _prepare)
            else:
                plan = check_run(config)
                obtain_run(plan)
                _prepare(config, plan.values)


class PrepareSweep(Callback):
    """Checks a sweep before its folder is made, records it there, and ends it with a table."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Refuse a used folder, a sweep with a job that cannot be composed, and a sweep none of whose jobs could run."""
        state.composed = True
        with exiting_with_a_sentence():
            refuse_distributed()
            refuse_change_of_folder(config)
            _check_launcher(config.hydra.launcher)
            folder = Path(config.hydra.sweep.dir)
            hydra_overrides = [one for one in typed_overrides(config.hydra, "hydra") if not one.startswith("hydra.mode=")]
            _name_jobs(config)
            if config.sweep.resume is not None:
                lock_or_refuse(folder, "wait for it, or end it")
                _refuse_running_jobs(folder)
            else:
                folder = _begin(config, folder, hydra_overrides)
            if "n_jobs" in config.hydra.launcher:
                stopping.pass_on_to_workers()
            state.search = folder if is_search(config) else None

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Print the table, write it as CSV, and fail if a job has failed."""
        folder = Path(config.hydra.sweep.dir)
        with exiting_with_a_sentence():
            found = Results.read(folder)
            tables = "\n\n".join(filter(None, (found.table(), found.ranking_text())))
            try:
                where = f"Written to {short(found.write_csv())}"
            except OSError as error:
                where = f"No sweep.csv: {error}."
            print(f"\n{tables}\n\n{where}")
        stopping.exit_if_stopped(folder)
        states = {job: run.state for job, run in found.jobs.items()}
        failed = [str(job) for job, ending in states.items() if ending not in ("finished", "skipped")]
        if failed:
            raise SystemExit(f"Error: job {', '.join(failed)} failed; its train.log says why.")
        if "finished" not in states.values():
            raise SystemExit("Error: every job was skipped; the table says why.")


def _check_launcher(launcher: DictConfig) -> None:
    """Refuse parallel jobs if the plugin that starts them is not installed, and wrong numbers of jobs."""
    if ".hydra_joblib_launcher." in launcher._target_ and find_spec("hydra_plugins.hydra_joblib_launcher") is None:
        raise ConfigError(missing_plugin("hydra/launcher", "joblib"))
    jobs = launcher.get("n_jobs", 1)
    if type(jobs) is not int or not jobs:
        raise ConfigError(f"hydra.launcher.n_jobs should be how many jobs run at once, or -1 for one per core, not {jobs}.")
    take_jobs_per_gpu(launcher)


def _prepare(config: DictConfig, values: dict[str, Any]) -> tuple[Path, Path | None]:
    """Make and lock the folder of a run, and return it with the checkpoint to resume, if there is one."""
    checkpoint = _checkpoint_to_resume(config, values)
    if checkpoint is None and values["resume"] == "auto" and values["init_from"] is not None:
        from ganexp.config.check import check  # imports torch

        check(values | {"resume": None}, trust=config.trust)  # a resumed run would not have needed init_from
    with read_write(config), open_dict(config):
        config.resume = literal(checkpoint) if checkpoint else None
        if checkpoint:
            config.hydra.run.dir = literal(RunFolder.of_checkpoint(checkpoint).path)
            config.hydra.output_subdir = None  # what Hydra wrote there at first stays as it is
            if OmegaConf.select(config, "hydra.job_logging.handlers.file"):  # Hydra would interpolate the folder's name again
                config.hydra.job_logging.handlers.file.filename = literal(checkpoint.parent.parent / "train.log")
        elif not _is_given("hydra.run.dir", config):
            config.hydra.run.dir = _raw(config.hydra.run, "dir").replace(CHOICES, run_name(config))
            config.hydra.run.dir = literal(make_new(Path(config.hydra.run.dir)))
    folder = Path(config.hydra.run.dir)
    if checkpoint is None:
        from ganexp.config.build import refuse_used_folder  # imports torch

        if folder == Path():
            raise ConfigError("hydra.run.dir should name a folder of the run's own, as in hydra.run.dir=outputs/mine.")
        refuse_used_folder(folder)
        if Sweep.is_in(folder):
            raise ConfigError(f"{folder} holds a sweep: choose another hydra.run.dir.")
    remedy = "wait for it, or begin a new run without resume" if checkpoint else "choose another hydra.run.dir, or wait"
    lock_or_refuse(folder, remedy)
    return folder, checkpoint


def _begin(config: DictConfig, folder: Path, hydra_overrides: list[str]) -> Path:
    """Check a new sweep, make and lock its folder, record it there, and return the folder."""
    if config.resume is not None:
        raise ConfigError(f"resume={config.resume} is for one run: leave out -m, or continue a sweep with sweep.resume=….")
    if Sweep.is_in(folder):
        remedy = f"choose another hydra.sweep.dir, or continue it with sweep.resume={folder}"
        raise ConfigError(f"{folder} holds a sweep already: {remedy}.")
    if runs.is_run(folder):
        raise ConfigError(f"{folder} holds a run: choose another hydra.sweep.dir.")
    if folder == Path():
        raise ConfigError("hydra.sweep.dir should name a folder of the sweep's own, as in hydra.sweep.dir=outputs/mine.")
    overrides = typed_overrides(config.hydra)
    parsed = _parsed([f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()] + overrides)
    differing = tuple(dict.fromkeys(one.get_key_element().lstrip("+") for one in parsed if one.is_sweep_override()))
    check_sweep(config, differing)
    jobs: tuple[tuple[str, ...], ...] = ()
    if config.hydra.sweeper._target_.endswith(".BasicSweeper"):
        jobs = tuple(map(tuple, BasicSweeper.split_arguments(parsed, max_batch_size=None)[0]))
        if not jobs:
            raise ConfigError(f"The sweep has no jobs, since {' or '.join(differing)} has no values: give it one or more.")
    check_jobs(config, jobs)
    direction = settle_direction(config, _is_given("hydra.sweeper.direction", config))
    _make_folder_of_study(config)
    if not _is_given("hydra.sweep.dir", config):
        folder = make_new(folder)
        config.hydra.sweep.dir = literal(folder)
        config.hydra.overrides.hydra.append(quoted("hydra.sweep.dir", folder))  # jobs are composed from these
    lock_or_refuse(folder, "choose another hydra.sweep.dir, or wait")
    options, _ = config_options(sys.argv[1:])
    metric = config.sweep.metric
    try:
        Sweep((*hydra_overrides, *overrides), differing, jobs, metric, tuple(options), direction).save(folder)
    except OSError as error:
        raise ConfigError(f"The sweep cannot be recorded ({error}): make room, or choose another hydra.sweep.dir.") from None
    if jobs:
        resume = command_to_resume("-m", f"sweep.resume={short(folder)}")
        print(f"{len(jobs)} jobs in {short(folder)}; if interrupted: {resume}")
    return folder


def _checkpoint_to_resume(config: DictConfig, values: dict[str, Any]) -> Path | None:
    """Return the checkpoint that `resume` names, or None for a new run, which `auto` begins if there is nothing to resume.

    A run that torchrun has restarted continues from the last checkpoint that it has written since its first start.
    """
    since = restarted_since()
    if config.resume is None and since is None:
        return None
    from ganexp.config.resume import loaded  # imports torch

    if config.resume in (None, "auto"):
        checkpoint = newest_unfinished(
            values, Path(config.hydra.run.dir).parent, since=since if config.resume is None else None
        )
    else:
        checkpoint = find_checkpoint(config.resume)
        checkpoint = RunFolder.of_checkpoint(checkpoint).last if since else checkpoint
    if checkpoint:
        loaded(checkpoint, values)
    return checkpoint


def _refuse_running_jobs(folder: Path) -> None:
    """Refuse to resume a sweep whose jobs have outlived the process that started them."""
    running = [path.name for path in runs.find(folder) if is_locked(path)]
    if running:
        raise ConfigError(f"sweep.resume={folder}: {', '.join(running)} is still being trained: wait for it, or end it.")


def _make_folder_of_study(config: DictConfig) -> None:
    """Make the folder of a study that is stored in a file, since Optuna does not make it."""
    storage = str(config.hydra.sweeper.get("storage") or "")
    if storage.startswith("sqlite:///"):
        try:
            Path(storage.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"hydra.sweeper.storage={storage} cannot be made: {error}.") from None
        os.environ.setdefault("SQLALCHEMY_SILENCE_UBER_WARNING", "1")  # the warning is about Optuna's own code


def _name_jobs(config: DictConfig) -> None:
    """Add what was changed to the names of jobs, by an override: jobs are composed from overrides in their own processes.

    Names that do not begin with the number of the job are refused.
    """
    subdir = _raw(config.hydra.sweep, "subdir")
    if not re.fullmatch(r"\$\{hydra[.:]job\.num\}(_[^/]*)?", subdir):
        raise ConfigError(
            f"hydra.sweep.subdir={subdir} should begin with ${{hydra.job.num}}_ and be one folder's name: jobs are found by "
            "their numbers."
        )
    if CHOICES in subdir:
        config.hydra.overrides.hydra.append(f"hydra.sweep.subdir={subdir.replace(CHOICES, '${ganexp.run_name:}')}")


def _parsed(overrides: Sequence[str]) -> list[Override]:
    with composing():
        return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(list(overrides))


def _is_given(key: str, config: DictConfig) -> bool:
    """Return whether an override of one of Hydra's keys was typed."""
    return any(one.lstrip("+").startswith(f"{key}=") for one in typed_overrides(config.hydra, "hydra"))


def _raw(node: DictConfig, key: str) -> str:
    """Return a value as it is written, with its interpolations."""
    return str(OmegaConf.to_container(node, resolve=False)[key])  # type: ignore[index, call-overload]
