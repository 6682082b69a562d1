"""Early symptoms of collapse, divergence and over-fitting, from a few forward passes."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.logging import Row
from ganexp.training.callbacks.drawing import samples_of, unchanged
from ganexp.training.run import Callback, Run

MOST = 64
"""The most samples of each kind that are compared."""
ALIKE, SPREAD = 0.95, 0.2
"""Samples are clearly alike with at least this share of near-duplicates, or less than this fraction of the data's diversity.

On digits of 16×16 pixels, 16 healthy runs of 600 iterations ended with no near-duplicates and a relative diversity of 0.96 to
1.03; six that had collapsed ended with nothing but near-duplicates and 0.06 to 0.08. On the ring, three runs with all modes
ended with 0.99 to 1.03, and three without a mode with 0.03 to 0.22."""


class Diagnostics(Callback):
    """Computes the diversity of samples and D's accuracy, if there is a logger for rows.

    Diversity is that of the averaged generator's samples, from latents that are always the same. The averaged and the trained
    generator make one batch each, and D scores three, without augmentation and in evaluation mode, so that batch norm uses its
    running statistics. A figure that has no value, such as diversity with fewer than two samples, is left out of the row.

    Args:
        every: The interval in iterations.
        held_out: Real samples that D is not trained on, images in [-1, 1], with their labels if D reads any.
    """

    def __init__(self, every: int = 500, held_out: Batch | Tensor | None = None) -> None:
        self.every = every
        self.held_out = None if held_out is None else Batch.of(held_out)

    def __call__(self, run: Run) -> Row:
        gan, average = run.gan, run.step.average.generator
        last = run.reals.last  # with several processes one share of the batch, which all of them gather
        whole = last.map(gan.processes.gather)
        if not run.loggers:
            return {}
        real, held_out = _first(whole, gan.pack), self.held_out
        if held_out is not None:
            held_out = _first(held_out, gan.pack) if len(held_out) >= gan.pack else None
        z = gan.prior.measured(len(real))
        real = real.split(len(z))[0]  # there may be fewer sources to look at
        with unchanged(gan.prior, average, gan.generator, gan.discriminator):
            figures = diversity(samples_of(average, z), real.values)
            fake = replace(z, values=samples_of(gan.generator, z), source=z.values)
            figures |= accuracies(gan, real, fake, held_out)
        return {key: value for key, value in figures.items() if math.isfinite(value)}


def diversity(fake: Tensor, real: Tensor) -> dict[str, float]:
    """Compare n generated samples `(n, …)` with as many real ones, by Euclidean distances of pixels or coordinates.

    A generated image is a near-duplicate if its nearest neighbour among the others is closer than half of the median such
    distance among the real ones. (Near-duplicates in a batch tell how small a generator's support is: Arora, Risteski & Zhang
    2018, who find theirs by eye.) Images that are equal always count. For points there is no such figure: in few dimensions,
    real points have near neighbours too, and it would be about as high in healthy runs as in collapsed ones.
    """
    if len(fake) < 2:
        return {}
    apart, apart_really = _distances(fake), _distances(real)
    nearest, usual = apart.amin(1), apart_really.amin(1).median()
    two = ~torch.eye(len(fake), dtype=torch.bool, device=fake.device)
    mean, really = apart[two].mean(), apart_really[two].mean()
    near = (nearest < usual / 2) | (nearest == 0)
    values = torch.stack([mean, mean / really, near.to(mean).mean().where(~nearest.isnan().any(), torch.nan)]).tolist()
    figures = dict(zip(("diversity/distance", "diversity/relative", "diversity/near_duplicates"), values, strict=True))
    if fake.dim() != 4:
        del figures["diversity/near_duplicates"]
    return figures


def collapse(row: Row) -> str:
    """Return a sentence for the end of a run if a row shows that its samples are alike; empty where that is not clear."""
    spread, alike = row.get("diversity/relative"), row.get("diversity/near_duplicates")
    if isinstance(alike, float) and alike >= ALIKE:
        symptom = f"{100 * alike:.0f} % of the samples have a near-duplicate in their batch, and hardly any real image has"
    elif alike is None and isinstance(spread, float) and spread < SPREAD:
        symptom = f"the samples are {100 * spread:.0f} % as far apart as real ones"
    else:
        return ""
    return f"Collapsed, or hardly trained yet: {symptom}."


def accuracies(gan: GAN, real: Batch, fake: Batch, held_out: Batch | None) -> dict[str, float]:
    """Return the share of each batch that D puts on the right side of the loss's `boundary`.

    Where the loss has none, it is midway between the mean scores of the real and the generated batch. With packs, packs
    are counted instead of samples.
    """
    sign = -1 if gan.loss.low_is_real else 1
    scores = {"real": gan.score_unaugmented(real), "fake": gan.score_unaugmented(fake)}
    if held_out is not None:
        scores["held_out"] = gan.score_unaugmented(held_out)
    boundary = gan.loss.boundary
    middle = (scores["real"].mean() + scores["fake"].mean()) / 2 if boundary is None else boundary
    above = {key: sign * (score - middle) for key, score in scores.items()}
    right = {key: -value if key == "fake" else value for key, value in above.items()}
    shares = [(value > 0).double().mean().where(value.isfinite().all(), torch.nan) for value in right.values()]
    return {f"accuracy/{key}": share for key, share in zip(right, torch.stack(shares).tolist(), strict=True)}


def _first(batch: Batch, pack: int) -> Batch:
    """Return the first samples of a batch: at most `MOST`, in full packs."""
    n = min(len(batch), max(MOST, pack))
    return batch.split(n - n % pack)[0]


def _distances(samples: Tensor) -> Tensor:
    """Return distances between samples, `(n, n)`, infinite on the diagonal."""
    flat = samples.flatten(1)
    apart = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist")  # mm would lose small distances
    return apart.fill_diagonal_(math.inf)
