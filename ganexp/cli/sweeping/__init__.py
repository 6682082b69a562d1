"""Sweeps: what differs between jobs, how each of them ended, and how they share a machine and are stopped."""

from ganexp.cli.sweeping.record import Sweep
from ganexp.cli.sweeping.tables import Results

__all__ = ["Results", "Sweep"]
