"""What stands between Hydra and a run: checks before anything is written, and errors as sentences."""

import logging
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ganexp.build import build, check, refuse_used_folder
from ganexp.config import ConfigError
from ganexp.sentences import sentence
from ganexp.training import Summary

log = logging.getLogger(__name__)
GROUPS = ("dataset", "generator", "discriminator", "loss", "penalty", "strategy", "optimizer")


class RefuseBadConfig(Callback):
    """Ends a single run with one sentence before its folder is made. The jobs of a sweep are checked one by one."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Check the composed configuration; Hydra calls this before anything else."""
        try:
            _one_option_per_group(config, config.hydra.runtime.choices)
            refuse_used_folder(Path(config.hydra.run.dir))  # before Hydra overwrites what it keeps there
            check(OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]))
        except ConfigError as error:
            raise SystemExit(f"Error: {error}") from None
        except Exception:
            traceback.print_exc()  # Hydra would make a warning of it
            raise SystemExit(1) from None


def run(cfg: DictConfig) -> None:
    """Build and train one job, and say where its results are. Errors also go into the job's own log."""
    hydra = HydraConfig.get()
    if hydra.mode == RunMode.MULTIRUN and cfg.wandb.group is None:
        cfg.wandb.group = Path(hydra.sweep.dir).name
    try:
        _one_option_per_group(cfg, hydra.runtime.choices)
        folder = Path(hydra.runtime.output_dir)
        trainer = build(cfg, _shown(folder))
        summary = trainer.fit()
    except ConfigError as error:
        log.error("%s", error)
        if hydra.mode == RunMode.MULTIRUN:
            raise
        raise SystemExit(1) from None
    except Exception:
        log.exception("The run failed.")
        if hydra.mode == RunMode.MULTIRUN:
            raise
        raise SystemExit(1) from None
    print(epilogue(summary))


def epilogue(summary: Summary) -> str:
    """Return the few lines that a run ends with: what was done, and where everything is."""
    last, seconds = summary["last"], summary["wall_s"]
    lines = [
        f"Trained {summary['iteration']:,} iterations in {seconds:.0f} s: "
        f"D {last['loss/d']:.3f}, G {last['loss/g']:.3f}, {last['progress/real_images'] / seconds:,.0f} images/s."
    ]
    order = ("samples", "checkpoint", "rows", "W&B")
    lines += [f"  {key:<11}{summary['paths'][key]}" for key in order if key in summary["paths"]]
    return "\n".join(lines)


def report(error: Exception) -> str | int:
    """Return what to exit with: a sentence for a user's mistake; for ours, 1, after the traceback is printed."""
    if isinstance(error, ConfigError):
        return f"Error: {error}"
    if isinstance(error, (HydraException, OmegaConfBaseException)):
        return f"Error: {sentence(error)}"
    if isinstance(error, OSError) and _raised_by_mkdir(error):
        return f"Error: the run folder cannot be made: {error}; choose another hydra.run.dir or hydra.sweep.dir."
    if str(error).startswith("Config group override must be"):
        return "Error: a group cannot be null; give it one of its options, as in loss=hinge."
    traceback.print_exception(error, file=sys.stderr)
    return 1


def _raised_by_mkdir(error: OSError) -> bool:
    return traceback.extract_tb(error.__traceback__)[-1].name == "mkdir"


def _one_option_per_group(cfg: DictConfig, choices: Mapping[str, Any]) -> None:
    """Refuse `loss=[hinge,wgan]`, which Hydra merges into one loss; it records no choice for such a group."""
    for group, node in cfg.items():
        if OmegaConf.is_dict(node) and "name" in node and group in GROUPS and group not in choices:
            raise ConfigError(f"{group!s} mixes several options into one: choose one of them, or sweep over them with -m.")


def _shown(folder: Path) -> Path:
    """Return a folder relative to the working directory, where it lies below it: shorter to read and to copy."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
