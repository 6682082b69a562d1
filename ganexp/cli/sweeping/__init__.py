"""Sweeps: the record of jobs, their outcomes, and how jobs share a machine and are stopped."""

from ganexp.cli.sweeping.record import Sweep
from ganexp.cli.sweeping.tables import Results

__all__ = ["Results", "Sweep"]
