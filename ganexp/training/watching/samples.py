"""Pictures of what a generator makes, from latents that stay the same."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.prior import COLUMNS, Prior
from ganexp.runs import Picture, Row
from ganexp.runs.layout import PICTURES
from ganexp.runs.pictures import image_grid, scatter, side_by_side
from ganexp.streams import undisturbed
from ganexp.training.run import Run, Watcher

MOST_ROWS = 16
"""Of a grid that has a class in each row."""


class Samples(Watcher):
    """Draws samples, and an autoencoder's reconstructions, if there is a book to keep them."""

    def __init__(self, every: int = 500) -> None:
        self.every = every

    def __call__(self, run: Run) -> Row:
        if not run.books:
            return {}
        gan = run.gan
        return {**draw(run.step.average.generator, gan.discriminator, gan.prior, run.reals.shown(), run.iteration)}


@torch.no_grad()
def draw(generator: nn.Module, discriminator: nn.Module, prior: Prior, reals: Tensor, iteration: int) -> dict[str, Picture]:
    """Draw samples, and reconstructions beside their inputs if the discriminator makes any.

    Moves no state: networks that draw random numbers of their own draw the same ones for every picture, and none from
    training's streams.
    """
    pictures: dict[str, np.ndarray] = {}
    with undisturbed(prior.device, prior.seed), _evaluating(generator, discriminator), torch.compiler.set_stance("force_eager"):
        if reals.dim() != 4:
            pictures["samples"] = scatter(reals, _made(generator, prior.fixed(1024)))
        else:
            images = _made(generator, prior.fixed(COLUMNS * (min(prior.classes, MOST_ROWS) or 8)))
            pictures["samples"] = image_grid(images, columns=COLUMNS)
            reconstruct = getattr(discriminator, "reconstruct", None)
            if reconstruct:
                shown = torch.cat([reals[:16], images[:16]])
                pictures["reconstructions"] = side_by_side(shown, reconstruct(shown))
    return {key: Picture(image, f"{PICTURES}/{key}_{iteration:07d}.png") for key, image in pictures.items()}


def _made(generator: nn.Module, z: Batch) -> Tensor:
    return generator(z.values, *z.given)


@contextmanager
def _evaluating(*networks: nn.Module) -> Iterator[None]:
    """Put networks into evaluation mode for a while: what is looked at must not move any running statistics.

    Each module gets its own mode back; `train(mode)` would thaw a layer that had been put into evaluation mode for good.
    """
    modes = [(module, module.training) for network in networks for module in network.modules()]
    for network in networks:
        network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
