"""Networks: one architecture family per file, generator and discriminator together.

A generator is built from `(latent_dim, shape)` and maps `(B, latent_dim)` to `(B, *shape)`; a discriminator is built from
`(shape)` and maps `(B, *shape)` to scores `(B,)`. `shape` is `(C, H, W)` for images in [-1, 1] or `(2,)` for points of the
plane. A constructor that does not support a shape raises ValueError, or a `Misfit` with a remedy, before it makes a layer.
`latent_dim` is the length of a latent vector. Networks that can be conditional have a keyword argument `classes`, the number of
classes or 0, which the run sets; `forward` then takes labels `(B,)` last.

A discriminator may return further numbers after each score, `(B, 1 + k)`, which it names in `further`: `class_loss`, the
cross-entropy of the sample's own label, or `code`, an autoencoder's code. A loss that needs them names them in `reads`. It may
return a map of scores, `(B, 1, …)`, with `maps = True`; several discriminators in one return `(B, 1, S)`, with the number of
places of each in `heads`, over which the loss is averaged with equal weights.

For data with sources, a generator is built from the shape of a source instead of `latent_dim`, and maps `(B, *source)` to
samples. A discriminator that can read sources has a keyword argument `source`, their shape, which the run sets; `forward` then
takes sources as its second argument, and `reads_source` is True.

Any module is a network: `contract.py` lists the attributes that it may declare, and their defaults.
"""

from ganexp.networks.autoencoders import VAE, VQ
from ganexp.networks.began import BEGANDiscriminator, BEGANGenerator
from ganexp.networks.biggan import BigGANDiscriminator, BigGANGenerator
from ganexp.networks.dcgan import DCGANDiscriminator, DCGANGenerator
from ganexp.networks.dit import DiTDiscriminator, DiTGenerator
from ganexp.networks.maxout import MaxoutDiscriminator
from ganexp.networks.minibatch_deviation import MinibatchDeviation
from ganexp.networks.mlp import MLPDiscriminator, MLPGenerator
from ganexp.networks.patch import MultiscaleDiscriminator, PatchDiscriminator
from ganexp.networks.projected import ProjectedDiscriminator
from ganexp.networks.r3gan import R3GANDiscriminator, R3GANGenerator
from ganexp.networks.resnet import ResNetDiscriminator, ResNetGenerator
from ganexp.networks.resnet_translator import ResNetTranslator
from ganexp.networks.srresnet import SRResNet
from ganexp.networks.stylegan2 import StyleGAN2Discriminator, StyleGAN2Generator
from ganexp.networks.two_way import TwoWayDiscriminator, TwoWayGenerator
from ganexp.networks.unet import UNet

__all__ = [
    "VAE",
    "VQ",
    "BEGANDiscriminator",
    "BEGANGenerator",
    "BigGANDiscriminator",
    "BigGANGenerator",
    "DCGANDiscriminator",
    "DCGANGenerator",
    "DiTDiscriminator",
    "DiTGenerator",
    "MLPDiscriminator",
    "MLPGenerator",
    "MaxoutDiscriminator",
    "MinibatchDeviation",
    "MultiscaleDiscriminator",
    "PatchDiscriminator",
    "ProjectedDiscriminator",
    "R3GANDiscriminator",
    "R3GANGenerator",
    "ResNetDiscriminator",
    "ResNetGenerator",
    "ResNetTranslator",
    "SRResNet",
    "StyleGAN2Discriminator",
    "StyleGAN2Generator",
    "TwoWayDiscriminator",
    "TwoWayGenerator",
    "UNet",
]
