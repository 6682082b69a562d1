"""Small generators with random weights, as `ganexp.load` would return them."""

import torch

from ganexp.networks import DCGANGenerator, MLPGenerator
from ganexp.sampling import Trained

LATENT = 5


def images(classes=0, *, dtype=torch.float32, prior="normal", channels=1):
    torch.manual_seed(0)
    conditions = {"classes": classes} if classes else {}
    network = DCGANGenerator(LATENT, (channels, 16, 16), width=4, **conditions)
    for parameter in network.parameters():  # far from what it is initialised with, where classes make no difference yet
        torch.nn.init.normal_(parameter, std=0.5)
    return Trained(network, latent_dim=LATENT, prior=prior, shape=(channels, 16, 16), classes=classes, dtype=dtype)


def points():
    torch.manual_seed(0)
    return Trained(MLPGenerator(LATENT, (2,), width=8, depth=2), latent_dim=LATENT, prior="normal", shape=(2,))
