"""What W&B has recorded, through W&B's own inspect command."""

import json
import sys

from tests import processes


def records(directory):
    """Return the records of the one run below `directory`, by type."""
    (log,) = directory.glob("wandb/offline-run-*/*.wandb")
    return inspected(log), log.parent


def inspected(log, *, check=True):
    """Return the records of W&B's own file, by type."""
    done = processes.run(sys.executable, "-m", "wandb", "leet", "inspect", "--json", log, cwd=log.parent)
    assert not check or done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    found = {}
    for record in map(json.loads, lines):
        found.setdefault(record["type"], []).append(record[record["type"]])
    return found
