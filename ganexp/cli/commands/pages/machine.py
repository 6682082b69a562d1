"""The machine that a page's figures were measured on."""

import os
import platform
from datetime import date

import torch
import torchvision

from ganexp.logging.provenance import cpu


def machine() -> str:
    """Return the device and the versions that matter."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores of {cpu()}, no GPU"
    return f"{device}, torch {torch.__version__}, torchvision {torchvision.__version__}, Python {platform.python_version()}"


def measured(how: str, minutes: float) -> str:
    """Return a sentence on what was run, when, for how long, and on what."""
    return f"`{how}` on {date.today()}, in {minutes:.0f} minutes: {machine()}."
