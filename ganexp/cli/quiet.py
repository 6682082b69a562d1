"""Idle threads that leave the cores to others: decided before torch is imported, which this module does not do."""

import os

import psutil


def wait_quietly() -> None:
    """Let OpenMP's idle threads sleep, not spin, if others use the cores and the user has not chosen: docs/benchmarks.md."""
    chosen = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if not chosen and psutil.cpu_percent(interval=0.1) / 100 * (psutil.cpu_count() or 1) > 0.5:
        os.environ["OMP_WAIT_POLICY"] = "passive"
