"""Where a dataset lies while a run trains."""

import torch


def fits(size: int, device: torch.device) -> bool:
    """Say whether so many bytes may lie on the device for the whole run: less than a quarter of what is free there.

    A tensor on the host stays there in any case, so it fits a run on the CPU.
    """
    return size < free_memory(device) / 4


def free_memory(device: torch.device) -> int:
    """Return the bytes of memory that are free on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    import psutil  # only runs on a CPU ask

    return psutil.virtual_memory().available
