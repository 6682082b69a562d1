"""Whether a dataset is held in memory during a run, or streamed."""

from typing import Literal

import torch

Place = Literal["auto", "resident", "streamed"]


def is_resident(place: Place, size: int, device: torch.device, *, loaded: bool = False) -> bool:
    """Return whether a dataset of `size` bytes is held in the memory of a device for the whole run.

    With `auto`, it is held there if it takes less than a quarter of the free memory, or is `loaded` into that memory already.
    """
    if place != "auto":
        return place == "resident"
    return (loaded and device.type == "cpu") or size < free_memory(device) / 4


def free_memory(device: torch.device) -> int:
    """Return the bytes of memory that are free on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    import psutil  # only runs on a CPU ask

    return psutil.virtual_memory().available
