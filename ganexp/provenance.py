"""Where a run comes from: the commit, the versions, the command."""

import importlib.metadata
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PACKAGES = ("ganexp", "torch", "torchvision", "hydra-core", "omegaconf", "wandb", "numpy")


def provenance() -> dict[str, Any]:
    """Return what is needed to run it again: time, command, git commit (None outside a repository), versions."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "git": _git(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
    }


def _git() -> dict[str, Any] | None:
    """Return the commit of the source, and whether tracked files differ from it."""
    source = Path(__file__).parent
    try:
        commit, status = (
            subprocess.run(["git", *command], cwd=source, capture_output=True, text=True, check=True, timeout=10).stdout
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.strip(), "dirty": bool(status.strip())}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
