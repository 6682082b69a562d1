"""Sweeps: what differs between jobs, what became of them, and how they share a machine."""

from ganexp.command_line.sweeping.pool import gpu_of_the_pool
from ganexp.command_line.sweeping.record import Sweep
from ganexp.command_line.sweeping.results import results, table, write_csv

__all__ = ["Sweep", "gpu_of_the_pool", "results", "table", "write_csv"]
