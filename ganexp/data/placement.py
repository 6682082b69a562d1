"""Where a dataset lies while a run trains."""

from typing import Literal

import torch

Place = Literal["auto", "resident", "streamed"]


def is_resident(place: Place, size: int, device: torch.device) -> bool:
    """Return whether data of this size stay in the device's memory: with `auto`, if they take less than a quarter of it."""
    return place == "resident" or (place == "auto" and size < free_memory(device) / 4)


def free_memory(device: torch.device) -> int:
    """Return the bytes of memory that are free on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    import psutil  # only runs on a CPU ask

    return psutil.virtual_memory().available
