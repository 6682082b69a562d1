"""A sweep, from the command line to its table: Hydra's sweeper chooses the jobs, and its launcher starts them."""

import logging
import re
import shlex
import shutil
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import psutil
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import configure_log
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, open_dict, read_write
from pydantic import Field

from ganexp.cli.composing import as_written, started, values_of
from ganexp.cli.ending import command_to_resume
from ganexp.cli.folders import lock_or_refuse, make_new, refuse_unmakeable
from ganexp.cli.hydra_errors import composing, missing_plugin
from ganexp.cli.hydra_internal import BasicSweeper, Callbacks, Loader
from ganexp.cli.launching import refuse_distributed
from ganexp.cli.line import Line, key_of, without
from ganexp.cli.log import SHOWN
from ganexp.cli.naming import CHOICES, short, typed_overrides
from ganexp.cli.resuming import path_of
from ganexp.cli.sweeping import Results, Sweep, stopping
from ganexp.cli.sweeping.sharing import take_jobs_per_gpu
from ganexp.cli.waiting import speaking
from ganexp.config.parsing import check_type
from ganexp.config.plain import plain
from ganexp.config.schema import SweepConfig
from ganexp.documents import FULL
from ganexp.facts import UserError
from ganexp.logging import reading as runs
from ganexp.logging.lock import is_locked

SEARCH = "ganexp.cli.sweeping.search.Search"


def sweep(line: Line) -> None:
    """Run the jobs of a sweep, or the unfinished ones of a resumed sweep, and print their outcomes."""
    refuse_distributed()
    before = continued(line)
    words = without(line.words, "sweep.resume", *(["hydra.sweep.dir"] if before else []))
    with started(line) as loader:
        with composing():
            cfg = loader.load_configuration(line.name, [*words, "hydra.mode=MULTIRUN"], run_mode=RunMode.MULTIRUN)
            configure_log(cfg.hydra.hydra_logging, cfg.hydra.verbose)
            if not cfg.hydra.verbose:
                for name in ("hydra", "hydra_plugins"):
                    logging.getLogger(name).setLevel(logging.WARNING)  # each job says itself which one it is
        _check_launcher(cfg.hydra.launcher)
        _name_jobs(cfg)
        if before:
            folder = before
            lock_or_refuse(folder, "wait for it, or end it")
            _refuse_running_jobs(folder)
            print(f"Going on with {short(folder)}.", flush=True)
        else:
            folder = _begin(loader, cfg, line, words)
        _tell_jobs(loader, cfg, folder, len(Sweep.load(folder).jobs) or cfg.hydra.sweeper.get("n_jobs", 1))
        starting: AbstractContextManager[None] = nullcontext()
        if "n_jobs" in cfg.hydra.launcher:
            stopping.pass_on_to_workers()
            workers = cfg.hydra.launcher.n_jobs
            print(f"Starting {workers} process{'es' * (workers > 1)}, which load libraries for some seconds.", flush=True)
            starting = speaking("Processes are still being started", until=(folder / SHOWN).exists)
        shutil.rmtree(folder / SHOWN, ignore_errors=True)  # of a sweep that was killed
        try:
            with starting:
                _run_jobs(loader, cfg, folder)
        finally:
            shutil.rmtree(folder / SHOWN, ignore_errors=True)
    end(folder)


def job(cfg: DictConfig) -> float | None:
    """Train a job as a configuration says: what Hydra calls, possibly in a process of its own."""
    from ganexp.cli.jobs import run_job  # imports torch

    return run_job(cfg)


def continued(line: Line) -> Path | None:
    """Return the folder that `sweep.resume=` names, after a check that the sweep was started with the same words; else None.

    The folder may be anyone's, so none of its words are taken: whoever resumes the sweep types them again.
    """
    name = line.value_of("sweep.resume")
    if name in (None, "null", ""):
        return None
    try:
        folder = path_of(str(name))
        before = Sweep.load(folder)
    except (OSError, ValueError, RuntimeError):
        raise UserError(f"sweep.resume={name} holds no sweep; name the folder of one, outputs/…_multirun.") from None
    if not before.jobs:
        raise UserError(f"sweep.resume={name} is a search; continue it by giving its hydra.sweeper.study_name again.")
    if _of_jobs(line.words) != _of_jobs(before.overrides) or line.options != [*before.options]:
        words = shlex.join([*before.options, *_of_jobs(before.overrides)])
        raise UserError(f"sweep.resume={name} goes on with the words of its sweep: type them beside it, {words[:2000]}.")
    return folder


def end(folder: Path) -> None:
    """Print the outcomes of the jobs as a table, and write them as CSV."""
    results = Results.read(folder)
    tables = "\n\n".join(filter(None, (results.table(), results.ranking_text())))
    try:
        where = f"Written to {short(results.write_csv())}"
    except OSError as error:
        where = f"No sweep.csv: {error}."
    print(f"\n{tables}\n\n{where}")
    stopping.exit_if_stopped(folder)
    states = {number: run.state for number, run in results.jobs.items()}
    failed = [str(number) for number, ending in states.items() if ending not in ("finished", "skipped")]
    if failed:
        jobs, whose = ("job", "its") if len(failed) == 1 else ("jobs", "their")
        raise UserError(f"{jobs} {', '.join(failed)} did not finish; the table and {whose} train.log say why.")
    if "finished" not in states.values():
        raise UserError("every job was skipped; the table says why.")


def is_search(cfg: DictConfig) -> bool:
    """Return whether a sweeper chooses the jobs of a sweep as it goes, to optimise something."""
    return not cfg.hydra.sweeper._target_.endswith(".BasicSweeper")


def settle_direction(cfg: DictConfig, typed: bool) -> str:
    """Return which values of `sweep.metric` are best, and set a search's `hydra.sweeper.direction`, which means the same.

    Args:
        cfg: The configuration of the sweep.
        typed: Whether `hydra.sweeper.direction` was given on the command line.
    """
    direction, metric, trust = str(cfg.sweep.direction), cfg.sweep.metric, cfg.trust
    if metric is None:
        return direction
    highest = False
    if direction == "auto" and not typed:
        from ganexp.config.metrics import high_is_best  # imports torch

        highest = high_is_best("sweep.metric", metric, cfg, trust)
    if not is_search(cfg):
        return direction
    of_search = cfg.hydra.sweeper.get("direction")
    of_search = getattr(of_search, "name", of_search)
    if not isinstance(of_search, str):
        return direction
    if direction == "auto":
        direction = "maximize" if highest else of_search
    elif typed and direction != of_search:
        raise UserError(f"sweep.direction={direction} contradicts hydra.sweeper.direction={of_search}: leave out one of them.")
    with read_write(cfg), open_dict(cfg):
        cfg.hydra.sweeper.direction = direction
    return direction


def _begin(loader: Loader, cfg: DictConfig, line: Line, words: Sequence[str]) -> Path:
    """Check a new sweep, make and lock its folder, record it there, and return the folder."""
    folder = Path(cfg.hydra.sweep.dir)
    if cfg.resume is not None:
        raise UserError(f"resume={cfg.resume} is for one run: leave out -m, or continue a sweep with sweep.resume=….")
    if Sweep.is_in(folder):
        remedy = f"choose another hydra.sweep.dir, or continue it with sweep.resume={folder}"
        raise UserError(f"{folder} holds a sweep already: {remedy}.")
    if runs.is_run(folder):
        raise UserError(f"{folder} holds a run: choose another hydra.sweep.dir.")
    if folder == Path():
        raise UserError("hydra.sweep.dir should name a folder of the sweep's own, as in hydra.sweep.dir=outputs/mine.")
    refuse_unmakeable(folder, "hydra.sweep.dir")
    overrides = typed_overrides(cfg.hydra)
    parsed = _parsed(loader, [f"{key}={value}" for key, value in (cfg.hydra.sweeper.get("params") or {}).items()] + overrides)
    differing = tuple(dict.fromkeys(one.get_key_element().lstrip("+") for one in parsed if one.is_sweep_override()))
    jobs: tuple[tuple[str, ...], ...] = ()
    if not is_search(cfg):
        jobs = tuple(map(tuple, BasicSweeper.split_arguments(parsed, max_batch_size=None)[0]))
        if not jobs:
            raise UserError(f"The sweep has no jobs, since {' or '.join(differing)} has no values: give it one or more.")
    number = f"{len(jobs)} jobs" if len(jobs) > 1 else "jobs"
    print(f"Checking {number}, which begins with loading libraries for some seconds.", flush=True)
    with speaking("Jobs are still being checked"):
        _check_sweep(cfg, differing)
        _check_jobs(loader, cfg, jobs)
        direction = settle_direction(cfg, line.value_of("hydra.sweeper.direction") is not None)
    if cfg.hydra.sweeper._target_ == SEARCH:
        _check_search(cfg, parsed)
    if line.value_of("hydra.sweep.dir") is None:
        folder = make_new(folder)
    lock_or_refuse(folder, "choose another hydra.sweep.dir, or wait")
    recorded = tuple(without(words, "hydra.sweeper.storage"))  # the address of a database may hold a password
    try:
        Sweep(recorded, differing, jobs, cfg.sweep.metric, tuple(line.options), direction).save(folder)
    except OSError as error:
        raise UserError(f"The sweep cannot be recorded ({error}): make room, or choose another hydra.sweep.dir.") from None
    if jobs:
        print(f"{len(jobs)} jobs in {short(folder)}; if interrupted: {command_to_resume(f'sweep.resume={short(folder)}')}")
    return folder


def _run_jobs(loader: Loader, cfg: DictConfig, folder: Path) -> None:
    """Let Hydra's sweeper run the jobs, and turn its errors, unless they are bugs, into sentences."""
    context = HydraContext(config_loader=loader, callbacks=Callbacks())
    sweeper: Sweeper
    if cfg.hydra.sweeper._target_ == SEARCH:  # Hydra itself takes plugins only
        sweeper = instantiate(cfg.hydra.sweeper)
        sweeper.setup(hydra_context=context, task_function=job, config=cfg)
    else:
        sweeper = Plugins.instance().instantiate_sweeper(config=cfg, hydra_context=context, task_function=job)
    try:
        sweeper.sweep(arguments=typed_overrides(cfg.hydra))
    except (Exception, KeyboardInterrupt) as error:
        stopping.exit_if_stopped(folder)  # the signal also ends processes that Hydra was waiting for
        if isinstance(error, OSError) and (error.filename or error.errno in FULL):  # about a folder that Hydra makes
            raise UserError(f"{error}: make room, or choose another hydra.sweep.dir.") from None
        if isinstance(error, BrokenProcessPool):  # one of joblib's, which then ends the others
            raise UserError(
                "a process that runs jobs has died, usually for lack of memory: lower hydra.launcher.n_jobs, and continue "
                f"with sweep.resume={short(folder)}."
            ) from None
        raise


def _tell_jobs(loader: Loader, cfg: DictConfig, folder: Path, most: int) -> None:
    """Tell each job the sweep's folder and the number of parallel jobs: never more processes run than there are jobs."""
    cfg.hydra.sweep.dir = _literal(folder)
    unwritten = dict.fromkeys(("output_subdir", "job_logging.handlers", "job_logging.root"))  # a job writes these files itself
    values = {"sweep.dir": _literal(folder), **unwritten}
    if at_once := cfg.hydra.launcher.get("n_jobs"):
        at_once = at_once if at_once > 0 else max(1, (psutil.cpu_count() or 1) + 1 + at_once)
        cfg.hydra.launcher.n_jobs = values["launcher.n_jobs"] = min(at_once, most)
    loader.job_values = {f"hydra.{key}": value for key, value in values.items()}


def _literal(path: Path | str) -> str:
    """Return a path as a value of a configuration, escaped so that nothing in it is interpolated."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", str(path))


def _of_jobs(words: Sequence[str]) -> list[str]:
    """Return the words of a sweep that its jobs are composed from: all except Hydra's own and `trust`."""
    return [word for word in without(words, "sweep.resume", "trust") if not key_of(word).startswith("hydra")]


def _check_launcher(launcher: DictConfig) -> None:
    """Refuse a launcher that is not available here, and invalid numbers of jobs."""
    if ".hydra_joblib_launcher." in launcher._target_ and find_spec("hydra_plugins.hydra_joblib_launcher") is None:
        raise UserError(missing_plugin("hydra/launcher", "joblib"))
    if launcher._target_.endswith(".SlurmLauncher") and not shutil.which("srun"):
        raise UserError(
            "hydra/launcher=slurm needs a SLURM cluster, and there is no srun on this machine: start the sweep on one of the "
            "cluster's login nodes, or choose hydra/launcher=parallel."
        )
    jobs = launcher.get("n_jobs", 1)
    if type(jobs) is not int or not jobs:
        raise UserError(f"hydra.launcher.n_jobs should be how many jobs run at once, or -1 for one per core, not {jobs}.")
    take_jobs_per_gpu(launcher)


def _check_sweep(cfg: DictConfig, differing: Sequence[str]) -> None:
    """Check a sweep's numbers and metric; if a group that measures differs, each job checks the metric."""
    for key in ("max_batch_size", "n_jobs", "n_trials"):
        if (number := cfg.hydra.sweeper.get(key)) is not None:
            check_type(f"hydra.sweeper.{key}", number, Annotated[int, Field(ge=1)])
    if cfg.hydra.sweeper._target_ == SEARCH:
        check_type("hydra.sweeper.direction", cfg.hydra.sweeper.direction, Literal["minimize", "maximize"])
    for key, value in plain(cfg.sweep).items():
        check_type(f"sweep.{key}", value, SweepConfig.model_fields[key].rebuild_annotation())
    metric = cfg.sweep.metric
    if is_search(cfg) and metric is None:
        raise UserError("sweep.metric must name what a search optimises, for example sweep.metric=began/convergence.")
    if metric is not None and not {"loss", "augment", "generator", "term", "experiment"} & {
        key.partition(".")[0] for key in differing
    }:
        from ganexp.config.metrics import refuse_unknown_metric  # imports torch

        refuse_unknown_metric("sweep.metric", metric, cfg, cfg.trust)


def _check_search(cfg: DictConfig, parsed: Sequence[Override]) -> None:
    """Refuse a search without Optuna, and one that Optuna does not take; its study has a name from now on."""
    if find_spec("optuna") is None:
        raise UserError("hydra/sweeper=search needs Optuna, which is not installed: pip install -e '.[optuna]'.")
    from ganexp.cli.sweeping.search import study_name  # imports Optuna

    cfg.hydra.sweeper.study_name = study_name(cfg.hydra.sweeper, parsed, cfg.sweep.metric)


def _check_jobs(loader: Loader, cfg: DictConfig, jobs: Sequence[Sequence[str]]) -> None:
    """Compose all jobs of a sweep, and check them until one is found that could run, which is enough to begin."""
    first_error, one_fits = None, False
    for words in jobs:
        with composing():
            composed = loader.load_sweep_config(cfg, list(words))
        if one_fits:
            continue
        try:
            values, config = values_of(composed, composed.hydra)
            from ganexp.config.check import check, check_loggers  # imports torch, for which most mistakes need not wait

            plan = check(values, config=config, trust=config.trust)
            check_loggers(plan)
            if plan.missing:
                raise UserError(" ".join(plan.missing))
            one_fits = True
        except UserError as error:
            first_error = first_error or error
    if first_error and not one_fits:
        raise first_error


def _refuse_running_jobs(folder: Path) -> None:
    """Refuse to resume a sweep whose jobs have outlived the process that started them."""
    running = [path.name for path in runs.find(folder) if is_locked(path)]
    if running:
        raise UserError(f"sweep.resume={folder}: {', '.join(running)} is still being trained: wait for it, or end it.")


def _name_jobs(cfg: DictConfig) -> None:
    """Add what was changed to the names of jobs; names that do not begin with the number of the job are refused."""
    subdir = str(as_written(cfg.hydra.sweep, "subdir"))
    if not re.fullmatch(r"\$\{hydra[.:]job\.num\}(_[^/]*)?", subdir):
        raise UserError(
            f"hydra.sweep.subdir={subdir} should begin with ${{hydra.job.num}}_ and be one folder's name: jobs are found by "
            "their numbers."
        )
    if CHOICES in subdir:
        cfg.hydra.overrides.hydra.append(f"hydra.sweep.subdir={subdir.replace(CHOICES, '${ganexp.run_name:}')}")


def _parsed(loader: Loader, overrides: Sequence[str]) -> list[Override]:
    with composing():
        return OverridesParser.create(config_loader=loader).parse_overrides(list(overrides))
