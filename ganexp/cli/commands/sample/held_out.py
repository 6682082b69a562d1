"""What a trained translator makes of the sources that its data hold out."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ganexp.batch import Batch
from ganexp.config.loading import set_of
from ganexp.config.run_data import preview_of
from ganexp.config.targets import Trust
from ganexp.facts import UserError
from ganexp.sampling import Trained
from ganexp.training.execution import Machine

SHOWN = 32
"""How many sources a grid has, unless told otherwise."""


def translated(
    trained: Trained, indices: Sequence[int] | None = None, *, trust: Trust = (), batch_size: int = SHOWN
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return sources, what a translator makes of them, and their targets; sources of training, if none are held out.

    Args:
        trained: The translator.
        indices: Which ones, in an order that is always the same; by default the first of them.
        trust: Modules besides ganexp's that the data set may come from.
        batch_size: How many are translated at a time.
    """
    dataset, data = set_of(trained, trust=trust)
    if tuple(dataset.source_shape) != trained.source_shape:
        raise UserError(f"the data have sources of shape {dataset.source_shape} now, and had {trained.source_shape}")
    machine = Machine.resolved(str(trained.device), "fp64" if trained.dtype == torch.float64 else "fp32")
    preview = preview_of(dataset, data, trained.classes, machine)
    chosen = range(min(SHOWN, preview.count)) if indices is None else indices
    if not all(0 <= index < preview.count for index in chosen):
        raise UserError(f"there are {preview.count} sources, counted from 0: lower --n, --first or --indices")
    reals = preview.read(chosen)
    assert reals.source is not None  # the data have a source_shape
    translations = torch.cat([trained.generate(part) for part in Batch(reals.source, reals.conditions).split(batch_size)])
    return reals.source, translations, reals.values if preview.paired else None
