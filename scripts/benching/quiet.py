"""Low priority, and a log without each run's own messages."""

import contextlib
import logging
import os
import warnings


def quiet() -> None:
    """Give way to whatever else runs on the machine, and log errors only."""
    with contextlib.suppress(OSError):
        os.nice(max(0, 19 - os.nice(0)))
    logging.getLogger("ganexp").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=UserWarning)
