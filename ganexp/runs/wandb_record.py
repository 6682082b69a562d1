"""What W&B's own files hold of a run that was begun before."""

import glob
import json
import subprocess
import sys
from pathlib import Path


def recorded(directory: str, run_id: str, *, apart_from: Path) -> set[int]:
    """Return the iterations that the files of a run below `directory`/wandb have rows of.

    Rows on their way when a process is killed are in none of them.

    Args:
        directory: Where the folder `wandb` lies.
        run_id: Whose files to read.
        apart_from: A folder of the same run that is not read: the one that is being written.
    """
    files = glob.glob(f"{glob.escape(directory)}/wandb/*run-*-{glob.escape(run_id)}/*.wandb")
    return {iteration for file in files if Path(file).parent != apart_from for iteration in _iterations(file)}


def _iterations(file: str) -> list[int]:
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", file]
    lines = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.splitlines()
    items = (json.loads(line).get("history", {}).get("item", {}) for line in lines if '"progress/iteration"' in line)
    return [int(item["progress/iteration"]) for item in items if "progress/iteration" in item]
