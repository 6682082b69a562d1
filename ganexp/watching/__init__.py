"""Watching somebody's own training loop: its trace in our letters, the update rule that it is, and its faults."""

from ganexp.watching.seen import WatchedLoop, watch

__all__ = ["WatchedLoop", "watch"]
