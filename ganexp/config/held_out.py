"""Real samples that no run is trained on, for what is only looked at."""

import logging

import torch

from ganexp.batch import Batch
from ganexp.data import Dataset, default_folder, load_cached
from ganexp.data.feed import to_range
from ganexp.streams import stream
from ganexp.training.execution import Machine

log = logging.getLogger(__name__)


def held_out_of(dataset: Dataset, classes: int, n: int, machine: Machine) -> Batch | None:
    """Return at most `n` samples that are not among the data, always the same ones; None if the data set has no others.

    Args:
        dataset: The data set that is trained on.
        classes: How many its labels are of, if networks read them; then they come with the samples.
        n: How many.
        machine: Where they are wanted, and as what.
    """
    others = dataset.held_out()
    if others is None:
        return None
    try:
        data = load_cached(others, default_folder(), place="streamed")
        labels = others.labels() if classes else None
    except (OSError, ValueError) as error:
        log.warning("There is no accuracy on held-out images: %s.", error)
        return None
    chosen = torch.randperm(len(data), generator=stream(0, "held-out samples"))[:n]  # type: ignore[arg-type]
    samples = data[chosen] if isinstance(data, torch.Tensor) else torch.stack([data[i] for i in chosen.tolist()])
    samples = to_range(samples.to(machine.device), machine.dtype)
    return Batch(samples, () if labels is None else (labels[chosen].to(machine.device),))
