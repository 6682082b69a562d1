"""Between Hydra and a run: checks before anything is written, and where results are at the end."""

import errno
import logging
import os
import shlex
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ganexp.command_line.naming import rename, shown, typed
from ganexp.command_line.resuming import options, record
from ganexp.command_line.sentences import mishap, sentence
from ganexp.command_line.sweeping import Sweep, gpu_of_the_pool
from ganexp.configuration.build import build
from ganexp.configuration.schema import GROUPS, ConfigError
from ganexp.runs.book import Summary
from ganexp.runs.folder import amend_summary, claim, release
from ganexp.runs.reading import read_document
from ganexp.training import Diverged, Stopping

log = logging.getLogger(__name__)


def run(cfg: DictConfig) -> float | None:
    """Build and train one job, and say where its results are. Errors also go into the job's own log.

    Returns:
        In a sweep with `sweep.metric`, its last value; None if there is none.
    """
    hydra = HydraConfig.get()
    folder = shown(Path(hydra.runtime.output_dir))
    if hydra.mode == RunMode.MULTIRUN:
        return _job(cfg, hydra, folder)
    logging.raiseExceptions = False  # a train.log on a full disk; the console says the same
    overrides = typed(hydra)
    with Stopping() as stopping:
        try:
            one_option_per_group(cfg, hydra.runtime.choices)
            trainer = build(cfg, folder, checkpoint=cfg.resume, stopping=stopping, trust=cfg.trust)
            _record(folder, overrides, options(sys.argv[1:])[0])
            point_latest_at(folder)
            summary = trainer.fit()
        except Exception as error:
            _log(error)
            raise SystemExit(1) from None
        print(epilogue(summary))
    if stopping.received and summary["state"] == "preempted":
        print(f"Stopped by {stopping.received.name}; to go on: {command_to_go_on(folder)}")
        raise SystemExit(128 + stopping.received)
    return None


asked = Stopping()
"""What asks the jobs of a sweep to stop, of which a process may run several, one after another."""


def _job(cfg: DictConfig, hydra: Any, folder: Path) -> float | None:
    """Run one job of a sweep; whatever happens to it, the others go on, and its end is kept in its summary.json."""
    if asked.received:
        return None  # so is this job
    logging.raiseExceptions = False  # as in a single run
    overrides = [one for one in typed(hydra) if not one.startswith(("sweep.resume=", "trust="))]
    rename(cfg, overrides)
    before = read_document(folder / "summary.json")
    if before.get("state") == "finished" and before.get("overrides") == overrides:
        log.info("Job %d is finished already.", hydra.job.num)
        return _metric(cfg, before)
    try:
        claim(folder)
    except OSError as error:
        log.error("Job %d is not run: %s.", hydra.job.num, error)
        return None
    try:
        with asked:
            summary = _fitted(cfg, hydra, folder, overrides)
    finally:
        release(folder)
    if asked.received and hydra.launcher._target_.endswith(".BasicLauncher"):
        stopped_together(Path(hydra.sweep.dir))
    return _metric(cfg, summary)


def _fitted(cfg: DictConfig, hydra: Any, folder: Path, overrides: list[str]) -> dict[str, Any]:
    """Train one job in a folder that is its own, and return its summary, which is in the folder as well."""
    facts: dict[str, Any] = {"job": hydra.job.num, "overrides": overrides}
    if not _checkpoint_to_go_on_from(folder):
        _set_aside(folder)
    sweep = Sweep.load(Path(hydra.sweep.dir))
    _name(cfg, sweep, overrides, Path(hydra.sweep.dir).name)
    try:
        one_option_per_group(cfg, hydra.runtime.choices)
        with _share_of_the_machine(cfg, hydra.launcher):
            trainer = build(cfg, folder, checkpoint=_checkpoint_to_go_on_from(folder), stopping=asked, trust=cfg.trust)
            _record(folder, overrides, sweep.options)
            point_latest_at(folder.parent)
            print(epilogue(trainer.fit()).splitlines()[0])
    except ConfigError as error:
        log.warning("Skipped: %s", error)
        facts |= {"state": "skipped", "error": str(error)}
    except Exception as error:
        _log(error)
        facts |= {"state": "failed", "error": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
    last = read_document(folder / "summary.json").get("last", {})
    if not facts.get("state") and cfg.sweep.metric and cfg.sweep.metric not in last:
        logged = ", ".join(key for key, value in last.items() if isinstance(value, (int, float)))
        facts["error"] = f"sweep.metric={cfg.sweep.metric} is not among what it logs: {logged}"
    return amend_summary(folder, facts)


def stopped_together(folder: Path) -> None:
    """End the program if its jobs were asked to stop, and say how to go on."""
    if asked.received:
        print(f"Stopped by {asked.received.name}; to go on: {command_to_go_on(folder, sweep=True)}")
        raise SystemExit(128 + asked.received)


def tell_workers() -> None:
    """Ask the processes that run jobs beside this one to stop; a signal to this one alone does not reach them."""
    for worker in psutil.Process().children():
        with suppress(psutil.Error):
            worker.send_signal(signal.SIGTERM)


def command_to_go_on(folder: Path, *, sweep: bool = False) -> str:
    """Return the command that goes on with a run or a sweep, as a shell takes it."""
    places, rest = options(sys.argv[1:])
    trusted = [one for one in rest if one.startswith("trust=")]
    what = ["-m", f"sweep.resume={shown(folder)}"] if sweep else [f"resume={shown(folder)}"]
    return shlex.join(["python", sys.argv[0], *places, *what, *trusted])


def _record(folder: Path, overrides: list[str], places: Sequence[str]) -> None:
    try:
        record(folder, overrides, places)
    except OSError as error:
        log.warning("How to go on with this run is not kept: %s.", error)


def _log(error: Exception) -> None:
    """Log a sentence for what a person can mend, a traceback for what may be ours."""
    said = str(error) if isinstance(error, (ConfigError, Diverged)) else mishap(error)
    if said:
        log.error("%s", said)
    else:
        log.error("The run failed.", exc_info=error)


def _checkpoint_to_go_on_from(folder: Path) -> Path | None:
    """Return the last checkpoint of a job that was killed or interrupted; one that has failed begins anew."""
    last = folder / "checkpoints" / "last.pt"
    return last if last.exists() and read_document(folder / "summary.json").get("state", "preempted") == "preempted" else None


def _metric(cfg: DictConfig, summary: Mapping[str, Any]) -> float | None:
    last = summary.get("last") if summary.get("state") == "finished" else None
    value = last.get(cfg.sweep.metric) if isinstance(last, dict) else None
    return value if isinstance(value, (int, float)) and value == value else None


def _name(cfg: DictConfig, sweep: Sweep, overrides: list[str], group: str) -> None:
    """Give a job's W&B run a name made of what differs, and the sweep as its group."""
    label = sweep.label(overrides)
    with open_dict(cfg):
        cfg.wandb.group = cfg.wandb.group or os.environ.get("WANDB_RUN_GROUP") or group
        if label:
            cfg.wandb.name = f"{cfg.wandb.name} {label}" if cfg.wandb.name else label


@contextmanager
def _share_of_the_machine(cfg: DictConfig, launcher: Mapping[str, Any]) -> Iterator[None]:
    """Beside other jobs on this machine, take a share of the threads and one GPU of the pool."""
    workers = launcher.get("n_jobs")
    if workers is None:
        yield
        return
    cores = os.cpu_count() or 1
    torch.set_num_threads(max(1, cores // (workers if workers > 0 else cores)))
    if cfg.device != "auto" or not torch.cuda.is_available():
        yield
        return
    with gpu_of_the_pool(torch.cuda.device_count(), Path.home() / ".cache" / "ganexp" / "gpus") as index:
        with open_dict(cfg):
            cfg.device = f"cuda:{index}"
        yield


def _set_aside(folder: Path) -> None:
    """Move what an earlier attempt at this job has left into a folder of its own: nothing is lost or mixed."""
    left = [folder / name for name in ("metrics.jsonl", "summary.json", "config.json", "samples", "checkpoints")]
    left = [path for path in left if path.exists()]
    if not left:
        return
    number = 1
    while (aside := folder / f"attempt{number}").exists():
        number += 1
    aside.mkdir()
    for path in left:
        shutil.move(path, aside / path.name)


def point_latest_at(folder: Path) -> None:
    """Let `outputs/latest` be a link to the newest run or sweep; where links are not possible, do without."""
    link = folder.parent / "latest"
    if folder.parent.name != "outputs" or folder.name == link.name or (link.exists() and not link.is_symlink()):
        return
    fresh = link.with_name(f".latest-{os.getpid()}")
    try:
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(folder.name, target_is_directory=True)
        fresh.replace(link)
    except OSError as error:
        log.debug("No link %s: %s", link, error)


def epilogue(summary: Summary) -> str:
    """Return the few lines that a run ends with: what was done, and where everything is."""
    last, seconds = summary["last"], summary["wall_s"]
    lines = [f"Trained {summary['iteration']:,} iterations in {seconds:.0f} s"]
    if "loss/d" in last:  # else it was stopped before its first row
        speed = last["progress/real_images"] / seconds
        lines[0] += f": D {last['loss/d']:.3f}, G {last['loss/g']:.3f}, {speed:,.0f} images/s"
    lines[0] += "."
    order = ("samples", "checkpoint", "rows", "W&B", "upload")
    lines += [f"  {key:<11}{summary['paths'][key]}" for key in order if key in summary["paths"]]
    return "\n".join(lines)


def report(error: Exception) -> str | int:
    """Return what to exit with: a sentence for a user's mistake; for ours, 1, after the traceback is printed."""
    if asked.received:  # it has ended processes beside this one as well
        print(f"Stopped by {asked.received.name}; what was written is kept.", file=sys.stderr)
        return 128 + asked.received
    if isinstance(error, ConfigError):
        return f"Error: {error}"
    if isinstance(error, (HydraException, OmegaConfBaseException)):
        return f"Error: {sentence(error)}"
    if isinstance(error, OSError) and (_raised_by_mkdir(error) or error.errno == errno.ENAMETOOLONG):
        return f"Error: the run folder cannot be made: {error}; choose another hydra.run.dir or hydra.sweep.dir."
    if str(error).startswith("Config group override must be"):
        return f"Error: {sentence(error)}"
    if isinstance(error, (TypeError, ValueError, RecursionError)) and _raised_in_composing(error):
        reason = " ".join(str(error).split())[:80]
        return f"Error: a value is nested too deeply, too long, or no option of its group, as in loss=hinge ({reason})."
    if any(frame.name == "best_trial" for frame in traceback.extract_tb(error.__traceback__)):
        return "Error: no trial of the search has a value; the summary.json and train.log of its jobs say why."
    traceback.print_exception(error, file=sys.stderr)
    return 1


def _raised_in_composing(error: Exception) -> bool:
    """Say whether Hydra has failed on what was typed, without a word of its own."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, RecursionError):
        return not any(file.startswith(str(Path(__file__).parent)) for file in files)
    return files[-1].endswith(("hydra/_internal/defaults_list.py", "override_parser/overrides_visitor.py"))


def _raised_by_mkdir(error: OSError) -> bool:
    return traceback.extract_tb(error.__traceback__)[-1].name == "mkdir"


def one_option_per_group(cfg: DictConfig, choices: Mapping[str, Any]) -> None:
    """Refuse `loss=[hinge,wgan]`, which Hydra merges into one loss; it records no choice for such a group.

    Raises:
        ConfigError: A group has several options.
    """
    for group, node in cfg.items():
        if OmegaConf.is_dict(node) and "name" in node and group in GROUPS and group not in choices:
            raise ConfigError(f"{group!s} mixes several options into one: choose one of them, or sweep over them with -m.")
