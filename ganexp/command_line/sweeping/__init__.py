"""Sweeps: what differs between jobs, how each of them ended, and how they share a machine and are stopped."""

from ganexp.command_line.sweeping.ranking import ranking_columns, ranking_text
from ganexp.command_line.sweeping.record import Sweep
from ganexp.command_line.sweeping.results import results, table, write_csv

__all__ = ["Sweep", "ranking_columns", "ranking_text", "results", "table", "write_csv"]
