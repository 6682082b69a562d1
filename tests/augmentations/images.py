"""Images to augment, and GANs of images to augment them in."""

import torch

from ganexp import build
from tests.composing import composed

SMALL = ["generator=mlp", "discriminator=mlp", "generator.width=6", "discriminator.width=6", "dataset=fake", "dataset.n=23"]
SMALL += ["dataset.image_size=8", "batch_size=5", "latent_dim=3", "logger=[]", "precision=fp64", "device=cpu"]


def images(n=40, channels=3, height=8, width=8, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(n, channels, height, width, generator=rng, dtype=torch.float64) * 2 - 1


def begun(augmentation, seed=0):
    augmentation.begin(seed, torch.device("cpu"))
    return augmentation


def built(*overrides):
    return build(composed(*SMALL, *overrides))


def weights(gan):
    return [p.detach().clone() for network in (gan.generator, gan.discriminator) for p in network.parameters()]
