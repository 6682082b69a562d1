"""Early signs of collapse, divergence and over-fitting, from a few forward passes."""

import math

import torch
from torch import Tensor

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.runs import Row
from ganexp.training.run import Run, Watcher
from ganexp.training.watching.drawing import looking, made

MOST = 64
"""So many samples of each kind are looked at, or as many as a batch has if those are fewer."""


class Signs(Watcher):
    """Looks at the diversity of samples, and at what D takes for real, if there is a book to keep that.

    Diversity is that of the averaged generator, of latents that are always the same. Both generators make one batch each,
    and D scores three, as they are: not augmented, and in evaluation mode, so that batch norm has its running statistics.
    A sign that has no value, as without two samples, is left out of the row.

    Args:
        every: The interval in iterations.
        held_out: Real samples that D is not trained on, images in [-1, 1], with their labels if D reads any.
    """

    def __init__(self, every: int = 500, held_out: Batch | Tensor | None = None) -> None:
        self.every = every
        self.held_out = None if held_out is None else Batch.of(held_out)

    def __call__(self, run: Run) -> Row:
        gan, average = run.gan, run.step.average.generator
        last = run.reals.last  # of several processes' batch one share, which all of them gather
        whole = Batch(gan.processes.gather(last.values), tuple(map(gan.processes.gather, last.given)))
        if not run.books:
            return {}
        real, held_out = _first(whole, gan.pack), self.held_out
        if held_out is not None:
            held_out = _first(held_out, gan.pack) if len(held_out) >= gan.pack else None
        z = gan.prior.measured(len(real))
        with looking(gan.prior, average, gan.generator, gan.discriminator):
            signs = diversity(made(average, z), real.values)
            fake = Batch(made(gan.generator, z), z.given)
            signs |= accuracies(gan, real, fake, held_out)
        return {key: value for key, value in signs.items() if math.isfinite(value)}


def diversity(fake: Tensor, real: Tensor) -> dict[str, float]:
    """Compare n generated samples `(n, …)` with as many real ones, by Euclidean distances of pixels or coordinates.

    A generated sample is a near-duplicate if its nearest neighbour among the others is closer than half of the median such
    distance among the real ones. (That near-duplicates in a batch tell how small a generator's support is: Arora, Risteski &
    Zhang 2018, whose own are found by eye.) Of reals uniform in d dimensions 1 − 2^(−2^−d) are some: 16 % of points of the
    plane, and hardly any image. Samples that are equal always count.
    """
    if len(fake) < 2:
        return {}
    apart, apart_really = _distances(fake), _distances(real)
    nearest, usual = apart.amin(1), apart_really.amin(1).median()
    two = ~torch.eye(len(fake), dtype=torch.bool, device=fake.device)
    mean, really = apart[two].mean(), apart_really[two].mean()
    near = (nearest < usual / 2) | (nearest == 0)
    values = torch.stack([mean, mean / really, near.to(mean).mean().where(~nearest.isnan().any(), torch.nan)]).tolist()
    return dict(zip(("diversity/distance", "diversity/relative", "diversity/near_duplicates"), values, strict=True))


def accuracies(gan: GAN, real: Batch, fake: Batch, held_out: Batch | None) -> dict[str, float]:
    """Return which share of each batch D puts on its own side of the loss's `boundary`.

    Where the loss has none, it is the middle between the mean scores of the real and the generated batch. With packs, it is
    these that are counted.
    """
    sign = -1 if gan.loss.low_is_real else 1
    scores = {"real": gan.judge(real), "fake": gan.judge(fake)}
    if held_out is not None:
        scores["held_out"] = gan.judge(held_out)
    boundary = gan.loss.boundary
    middle = (scores["real"].mean() + scores["fake"].mean()) / 2 if boundary is None else boundary
    above = {key: sign * (score - middle) for key, score in scores.items()}
    right = {key: -value if key == "fake" else value for key, value in above.items()}
    shares = [(value > 0).double().mean().where(value.isfinite().all(), torch.nan) for value in right.values()]
    return {f"accuracy/{key}": share for key, share in zip(right, torch.stack(shares).tolist(), strict=True)}


def _first(batch: Batch, pack: int) -> Batch:
    """Return the first samples of a batch: as many as are looked at, in full packs."""
    n = min(len(batch), max(MOST, pack))
    return batch.split(n - n % pack)[0]


def _distances(samples: Tensor) -> Tensor:
    """Return distances between samples, `(n, n)`, infinite on the diagonal."""
    flat = samples.flatten(1)
    apart = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist")  # which would lose small ones
    return apart.fill_diagonal_(math.inf)
