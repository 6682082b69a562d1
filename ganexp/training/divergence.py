"""Runs that go wrong: noticed in the rows that are on the host anyway, so without making the device wait."""

import json
import math
from pathlib import Path

import torch
from torch import Tensor

from ganexp.gan import GAN
from ganexp.logbook import Picture, Row

WATCHED = ("loss/", "score/", "grad_norm/", "began/")
SENSIBLE = 1e8
"""Losses, scores and norms beyond this are as lost as those that are not finite."""
MOST_ROLLBACKS = 5


class Diverged(RuntimeError):
    """A run is beyond saving, said in one sentence with what to try."""


def trouble(row: Row) -> str:
    """Say what is wrong with a row, or nothing."""
    found = {key: value for key, value in row.items() if key.startswith(WATCHED) and not isinstance(value, Picture)}
    wrong = [f"{key} is {value:.3g}" for key, value in found.items() if not math.isfinite(value) or abs(value) > SENSIBLE]
    return ", ".join(wrong)


def remedy(last: Path | None) -> str:
    """Say what can be done."""
    kept = f"The last good checkpoint is {last}. " if last and last.exists() else ""
    return f"{kept}Try a lower optimizer.lr, penalty=gradient_penalty, or on_divergence=rollback."


@torch.no_grad()
def finite(gan: GAN) -> bool:
    """Say whether all parameters are finite."""
    parameters = [*gan.generator.parameters(), *gan.discriminator.parameters()]
    return bool(torch.stack([parameter.isfinite().all() for parameter in parameters]).all())


def write_down(path: Path, said: str, row: Row, gan: GAN, reals: Tensor) -> None:
    """Keep the row and statistics of the batch that was seen last."""
    tensors = {"reals": reals, "real scores": gan.last_real, "fake scores": gan.last_fake}
    batch = {name: _statistics(tensor) for name, tensor in tensors.items() if tensor is not None}
    plain = {key: value for key, value in row.items() if not isinstance(value, Picture)}
    path.write_text(json.dumps({"said": said, "row": plain, "batch": batch}, indent=2) + "\n")


def _statistics(tensor: Tensor) -> dict[str, float]:
    values = tensor.detach().double()
    spread = values.std(unbiased=False)
    return {"mean": values.mean().item(), "std": spread.item(), "min": values.min().item(), "max": values.max().item()}
