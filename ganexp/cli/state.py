"""The state of the command that this process runs: one command per process, and Hydra passes nothing on."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ganexp.config.run_data import RunData
    from ganexp.distributed.processes import Processes
    from ganexp.training import Stopping


@dataclass
class State:
    """What callbacks, jobs and the report of an error tell each other.

    Args:
        composed: Whether Hydra has composed the configuration. Whatever it raises before that is about what was typed.
        search: The folder of the search that this process runs.
        stopping: What notes the signals that ask the jobs of a sweep to stop.
        timed: Whether the first job of a sweep has said how long the others will take.
        processes: The processes that torchrun has started, of which this is one; None where there is only this one.
        obtained: The data of the run, and what evaluates it.
        messages: What was logged before the run had a folder, and with it a log.
    """

    composed: bool = False
    search: Path | None = None
    stopping: "Stopping | None" = None
    timed: bool = False
    processes: "Processes | None" = None
    obtained: "RunData | None" = None
    messages: list[logging.LogRecord] = field(default_factory=list)


state = State()
