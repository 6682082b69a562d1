"""Watch any PyTorch training loop: report its trace, the update rule that it follows, its costs and its faults."""

from ganexp.watching.watched_loop import WatchedLoop, watch

__all__ = ["WatchedLoop", "watch"]
