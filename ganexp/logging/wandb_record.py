"""What W&B's own files hold about a run that is resumed."""

import glob
import json
import subprocess
import sys
from pathlib import Path


def recorded_iterations(directory: str, run_id: str, *, except_in: Path) -> set[int]:
    """Return the iterations whose rows are in the files of a run below `directory`/wandb.

    Rows that W&B had not written yet when it was killed are in none of them.

    Args:
        directory: Where the folder `wandb` lies.
        run_id: The id of the run.
        except_in: A folder of the same run that is not read: the one that is being written now.
    """
    files = glob.glob(f"{glob.escape(directory)}/wandb/*run-*-{glob.escape(run_id)}/*.wandb")
    return {iteration for file in files if Path(file).parent != except_in for iteration in _iterations(file)}


def _iterations(file: str) -> list[int]:
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", file]
    lines = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.splitlines()
    items = (json.loads(line).get("history", {}).get("item", {}) for line in lines if '"progress/iteration"' in line)
    return [int(item["progress/iteration"]) for item in items if "progress/iteration" in item]
