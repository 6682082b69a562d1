"""Sweeps: what differs between jobs, how each of them ended, and how they share a machine and are stopped."""

from ganexp.cli.sweeping.ranking import ranking_columns, ranking_text
from ganexp.cli.sweeping.record import Sweep
from ganexp.cli.sweeping.results import results, table, write_csv

__all__ = ["Sweep", "ranking_columns", "ranking_text", "results", "table", "write_csv"]
