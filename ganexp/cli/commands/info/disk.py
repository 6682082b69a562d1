"""What lies on the disk: runs, W&B's folder, and the cache; links are not followed."""

import os
from pathlib import Path

from ganexp.data.cache import default_folder
from ganexp.logging import reading

MOST = 20
"""How many runs and sweeps are listed by themselves, the largest first."""


def size(place: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    if not place.is_dir():
        return place.stat().st_size
    total = 0
    for folder, _, names in os.walk(place):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:  # gone meanwhile
                continue
    return total


def of_size(count: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def disk(outputs: Path) -> list[tuple[str, str]]:
    """Return what takes room, each place with its size and what it is."""
    inside = [path for path in outputs.iterdir() if path.is_dir() and not path.is_symlink()] if outputs.is_dir() else []
    runs = sorted(((size(path), path) for path in inside if reading.find(path)), reverse=True)
    lines = [(of_size(count), str(path)) for count, path in runs[:MOST]]
    if runs[MOST:]:
        lines.append(
            (of_size(sum(count for count, _ in runs[MOST:])), f"{len(runs) - MOST} smaller runs and sweeps in {outputs}")
        )
    lines.append(
        (of_size(sum(count for count, _ in runs)), f"all {len(runs)} runs and sweeps in {outputs}: rm -r FOLDER deletes one")
    )
    if Path("wandb").is_dir():
        lines.append(
            (of_size(size(Path("wandb"))), "wandb, W&B's copies: wandb sync uploads what is offline, then rm -r wandb")
        )
    cache = default_folder().parent
    kept = sorted(path for path in cache.iterdir() if path.is_dir()) if cache.is_dir() else []
    lines += [
        (of_size(size(folder)), f"{folder}: rm -r deletes it; what is needed is made or downloaded anew") for folder in kept
    ]
    latest = outputs / "latest"
    if latest.is_symlink() and not latest.exists():
        lines.append(("", f"{latest} leads to a run that is gone: rm {latest}"))
    return lines
