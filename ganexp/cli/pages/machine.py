"""The machine that a page's figures were measured on."""

import os
import platform
from datetime import date

import torch
import torchvision

from ganexp.logging.provenance import cpu


def machine(device: str | None = None) -> str:
    """Return the device, `cpu` or `cuda`, by default a GPU if there is one, and the versions that matter."""
    on_gpu = torch.cuda.is_available() if device is None else device == "cuda"
    name = torch.cuda.get_device_name() if on_gpu else f"{os.cpu_count()} cores of {cpu()}, no GPU"
    return f"{name}, torch {torch.__version__}, torchvision {torchvision.__version__}, Python {platform.python_version()}"


def measured(how: str, minutes: float) -> str:
    """Return a sentence on what was run, when, for how long, and on which machine."""
    return f"`{how}` on {date.today()}, in {minutes:.0f} minutes: {machine()}."
