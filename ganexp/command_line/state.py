"""How far this process has come with the command that it runs: one command per process, and Hydra passes nothing on."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganexp.training import Stopping
    from ganexp.training.processes import DistributedProcesses


@dataclass
class State:
    """What callbacks, jobs and the report of an error tell each other.

    Args:
        composed: Hydra has composed the configuration. Whatever it raises before is about what was typed.
        search: The folder of the search that this process runs.
        stopping: What notes the signals that ask the jobs of a sweep to stop.
        processes: Those that train a run together, if there are several.
    """

    composed: bool = False
    search: Path | None = None
    stopping: "Stopping | None" = None
    processes: "DistributedProcesses | None" = None


state = State()
