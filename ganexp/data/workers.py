"""Processes that read images beside training."""

import sys
from typing import Any

from torch.utils.data import DataLoader


def loader(data: Any, workers: int, **settings: Any) -> DataLoader[Any]:
    """Return torch's DataLoader over a map-style dataset, with so many processes."""
    context = "fork" if workers and sys.platform == "linux" else None  # a joblib worker's own cannot start others
    return DataLoader(data, num_workers=workers, multiprocessing_context=context, **settings)
