"""Low priority, and a log without what every run says of itself."""

import contextlib
import logging
import os
import warnings


def quiet() -> None:
    """Give way to whatever else runs on the machine, and say errors only."""
    with contextlib.suppress(OSError):
        os.nice(max(0, 19 - os.nice(0)))
    logging.getLogger("ganexp").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=UserWarning)
