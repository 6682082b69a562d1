"""What W&B has recorded, through W&B's own inspect command."""

import json

from wandb.util import get_core_path

from tests import processes


def records(directory):
    """Return the records of the one run below `directory`, by type."""
    (log,) = directory.glob("wandb/offline-run-*/*.wandb")
    return inspected(log), log.parent


def inspected(log, *, check=True):
    """Return the records of W&B's own file, by type."""
    inspect = (get_core_path(), "leet", "inspect", "--no-observability", "--json")  # `wandb leet inspect --json` runs this
    done = processes.run(*inspect, "--run-file", log, log.parent, cwd=log.parent)
    assert not check or done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    records_of_type = {}
    for record in map(json.loads, lines):
        records_of_type.setdefault(record["type"], []).append(record[record["type"]])
    return records_of_type
