"""The provenance of a run: the commit, the versions, the command, the machine."""

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import torch

PACKAGES = ("ganexp", "torch", "torchvision", "hydra-core", "omegaconf", "wandb", "numpy")


def provenance(*plugins: str) -> dict[str, Any]:
    """Return the facts needed to repeat a run: time, command, git commit (None outside a repository), versions, hardware.

    The versions of `plugins`, further packages, are among them.
    """
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join([sys.argv[0], shlex.join(map(_without_password, sys.argv[1:]))]),
        "git": _git(),
        "hardware": _hardware(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in (*PACKAGES, *plugins)}},
    }


def _without_password(word: str) -> str:
    """Return a word of the command line without the address of a database, which may hold a password."""
    key = "hydra.sweeper.storage="
    return f"{key}…" if word.startswith(key) else word


def _git() -> dict[str, Any] | None:
    """Return the commit of the source, and whether tracked files differ from it; None if no repository tracks it."""
    if _output("git", "ls-files", "--error-unmatch", Path(__file__).name) is None:  # the repository may be another project's
        return None
    commit, status = _output("git", "rev-parse", "HEAD"), _output("git", "status", "--porcelain", "--untracked-files=no")
    return None if commit is None or status is None else {"commit": commit, "dirty": bool(status)}


def _output(*command: str) -> str | None:
    """Return what a command prints, run beside this file; None if it fails."""
    try:
        run = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()


def _hardware() -> dict[str, Any]:
    """Return the processor, how many cores this process may use, the memory, the GPUs, and the CUDA and driver versions."""
    gpus = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
    driver = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") if gpus else None
    return {
        "cpu": cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "gpus": [f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus],
        "cuda": torch.version.cuda if gpus else None,
        "driver": driver.split()[0] if driver else None,
    }


def cpu() -> str:
    """Return the processor's model, or at least its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def same_everywhere(*plugins: str) -> dict[str, Any]:
    """Return the facts that must be equal in all processes of a run: the commit, and the versions of torch and the like."""
    return {"git": _git(), **{name: _version(name) for name in ("ganexp", "torch", "numpy", *plugins)}}
