"""Pictures of a generator's samples, always from the same latents."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from ganexp.logging import Picture, Row
from ganexp.logging.layout import PICTURES
from ganexp.logging.pictures import MOST_ROWS, image_grid, scatter, side_by_side, translations
from ganexp.networks.contract import declared
from ganexp.prior import COLUMNS, Prior
from ganexp.training.callbacks.drawing import samples_of, unchanged
from ganexp.training.run import Callback, Run

MOST_SOURCES = 32
"""The most sources of a picture."""


class Samples(Callback):
    """Draws samples, and an autoencoder's reconstructions, if there is a logger for them.

    The first picture is of iteration 0, and comes with one of real images; pictures of points always show real ones too. A run
    that is stopped by a signal ends with a picture as well. What is shown of samples are their `pictures`, as of a `Dataset`.
    """

    when_stopped = True

    def __init__(self, every: int = 500, pictures: Callable[[Tensor], Tensor] = lambda samples: samples) -> None:
        self.every, self.pictures = every, pictures

    def before(self, run: Run) -> Row:
        if not self.every or not run.loggers:
            return {}
        row, reals = self(run), run.reals.shown()
        if reals.dim() == 4:
            with torch.no_grad():
                shown = self.pictures(reals[: 8 * COLUMNS])
            row["real"] = Picture(image_grid(shown, columns=COLUMNS), f"{PICTURES}/real.png")
        return row

    def __call__(self, run: Run) -> Row:
        if not run.loggers:
            return {}
        gan, reals = run.gan, run.reals.shown()
        return {**draw(run.step.average.generator, gan.discriminator, gan.prior, reals, run.iteration, self.pictures)}


def draw(
    generator: nn.Module,
    discriminator: nn.Module,
    prior: Prior,
    reals: Tensor,
    iteration: int,
    shown: Callable[[Tensor], Tensor] = lambda samples: samples,
) -> dict[str, Picture]:
    """Draw samples, and reconstructions beside their inputs if the discriminator makes any.

    Samples that are made from sources are shown between their sources and their targets, if these are known; of two directions,
    each source is followed by its sample.

    Moves no state: networks that draw random numbers of their own draw the same ones for every picture, and none from
    training's streams.
    """
    pictures: dict[str, np.ndarray] = {}
    with unchanged(prior, generator, discriminator):
        if reals.dim() != 4:
            pictures["samples"] = scatter(reals, samples_of(generator, prior.fixed(1024)))
        else:
            z = prior.fixed(COLUMNS * (min(prior.classes, MOST_ROWS) or 8))
            images = samples_of(generator, z)
            if prior.are_sources:
                few = z.map(lambda tensor: tensor[:MOST_SOURCES])
                two_way = declared(generator).two_way
                pictures["samples"] = translations(few.values, images[:MOST_SOURCES], few.target, two_way=two_way)
            else:
                pictures["samples"] = image_grid(shown(images), columns=COLUMNS)
            reconstruct = declared(discriminator).reconstruct
            if reconstruct:
                inputs = torch.cat([reals[:16], images[:16]])
                pictures["reconstructions"] = side_by_side(shown(inputs), shown(reconstruct(inputs)))
    return {key: Picture(image, f"{PICTURES}/{key}_{iteration:07d}.png") for key, image in pictures.items()}
