"""Networks: one architecture family per file, generator and discriminator together.

The contract is the constructor and one method. A generator is built from `(latent_dim, shape)` and maps `(B,
latent_dim)` to `(B, *shape)`; a discriminator is built from `(shape)` and maps `(B, *shape)` to scores `(B,)`. `shape` is
`(C, H, W)` for images in [-1, 1] or `(2,)` for points of the plane. A discriminator says in `output` whether its
scores are logits or energies; one that can show what it saw has a method `reconstruct(x)`. A constructor that cannot
serve a shape raises ValueError, or a `Misfit` with a remedy, before it makes a layer.

A discriminator may return further numbers after each score, `(B, 1 + k)`, and then says in `further` what they are:
`class_loss`, the cross-entropy of the sample's own label, or `code`, an autoencoder's code. Losses say in `reads` what they
need, and `reads` and `further` have to agree.

A discriminator may score several places of a sample: it returns `(B, 1, …)`, a map of scores, and sets `maps = True`. Several
discriminators in one return their places behind each other, `(B, 1, S)`, and say in `heads` how many places each has: the loss
is then averaged over them with equal shares.

Where the data have sources, such as images that are to be translated, a generator is built from the shape of a source in place
of `latent_dim`, maps sources `(B, *source)` to samples, and says `reads_sources = True`; `last_layer` is its last weight. A
discriminator that can look at the source of a sample has a keyword argument `source`, its shape, which the run sets; with it,
`forward` takes sources as its second argument, before labels, and it says `reads_source = True`. `features(x, …)` returns the
outputs of all its layers but the last.

Networks that can be conditional have a keyword argument `classes`, which the run sets; with it, `forward` takes labels `(B,)`
as its last argument.

Any module is a network: `contract.py` reads what it declares, and has defaults for what it does not declare.
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
