"""Networks: shapes, ranges, what they promise of themselves, and what they refuse."""

import itertools

import pytest
import torch
from torch import nn

from ganexp.networks import (
    BEGANDiscriminator,
    BEGANGenerator,
    DCGANDiscriminator,
    DCGANGenerator,
    DiTDiscriminator,
    MLPDiscriminator,
    MLPGenerator,
    R3GANDiscriminator,
    R3GANGenerator,
    ResNetDiscriminator,
    StyleGAN2Discriminator,
    StyleGAN2Generator,
)

CONVOLUTIONAL = [(DCGANGenerator, DCGANDiscriminator), (BEGANGenerator, BEGANDiscriminator)]
R3GAN = (R3GANGenerator, R3GANDiscriminator)


@pytest.mark.parametrize("size", [16, 128])
@pytest.mark.parametrize(("networks", "width"), [*((one, 2) for one in (*CONVOLUTIONAL, R3GAN)), (R3GAN, 3)])
def test_any_power_of_two_from_16_up(networks, size, width):
    shape = (3, size, size)
    generator, discriminator = networks[0](5, shape, width=width), networks[1](shape, width=width)
    fake = generator(torch.randn(3, 5))
    assert fake.shape == (3, *shape)
    assert discriminator(fake).shape == (3,)


@pytest.mark.parametrize("networks", [(DCGANGenerator, DCGANDiscriminator), R3GAN])
@pytest.mark.parametrize(("shape", "classes"), [((3, 32, 64), 0), ((1, 64, 16), 2)])
def test_images_need_not_be_square(networks, shape, classes):
    """D's last layer sees every place of its last map once: its gradient by the image is nowhere 0."""
    labels = (torch.ones(3).long(),) if classes else ()
    generator, discriminator = networks[0](5, shape, width=2, classes=classes), networks[1](shape, width=2, classes=classes)
    fake = generator(torch.randn(3, 5), *labels)
    assert fake.shape == (3, *shape)
    scores = discriminator(fake, *labels)
    assert scores.shape == (3,)
    (gradient,) = torch.autograd.grad(scores.sum(), fake)
    assert networks[0] is R3GANGenerator or (gradient.abs().sum((0, 1)) > 0).all()


@pytest.mark.parametrize("shape", [(2,), (1, 28, 28), (3, 7, 5)])
def test_mlp_serves_any_shape(shape):
    fake = MLPGenerator(5, shape, width=4)(torch.randn(3, 5))
    assert fake.shape == (3, *shape)
    assert MLPDiscriminator(shape, width=4)(fake).shape == (3,)


def test_mlp_has_the_sizes_of_a_published_toy_experiment():
    """Gulrajani et al. 2017 on 8 Gaussians: three hidden layers of 512 units in both networks."""
    generator, discriminator = MLPGenerator(2, (2,), width=512, depth=3), MLPDiscriminator((2,), width=512, depth=3)
    hidden = (2 * 512 + 512) + 2 * (512 * 512 + 512)
    assert sum(p.numel() for p in generator.parameters()) == hidden + 512 * 2 + 2
    assert sum(p.numel() for p in discriminator.parameters()) == hidden + 512 + 1


NO_SHAPES = [(2,), (1, 28, 28), (3, 8, 8), (3, 48, 32), (1, 0, 0)]
FAMILIES = [*CONVOLUTIONAL, R3GAN, (StyleGAN2Generator, StyleGAN2Discriminator)]


@pytest.mark.parametrize(
    ("networks", "shape"), [*itertools.product(FAMILIES, NO_SHAPES), ((BEGANGenerator, BEGANDiscriminator), (3, 32, 64))]
)
def test_convolutions_refuse_what_they_cannot_make(networks, shape):
    generator, discriminator = networks
    with pytest.raises(ValueError, match=r"^shape should"):
        generator(5, shape)
    with pytest.raises(ValueError, match=r"^shape should"):
        discriminator(shape)


def test_channels_of_dcgan_at_64_are_the_papers():
    generator, discriminator = DCGANGenerator(100, (3, 64, 64), width=128), DCGANDiscriminator((3, 64, 64), width=128)
    ups = [m.out_channels for m in generator.modules() if isinstance(m, nn.ConvTranspose2d)]
    downs = [m.out_channels for m in discriminator.modules() if isinstance(m, nn.Conv2d)]
    assert ups == [1024, 512, 256, 128, 3]
    assert downs == [128, 256, 512, 1024, 1]


def test_dcgan_batch_norm_can_be_had_and_left():
    def count(module):
        return sum(isinstance(m, nn.BatchNorm2d) for m in module.modules())

    shape = (1, 32, 32)
    assert count(DCGANGenerator(5, shape)) == 3
    assert count(DCGANGenerator(5, shape, batch_norm=False)) == 0
    assert count(DCGANDiscriminator(shape)) == 0
    assert count(DCGANDiscriminator(shape, batch_norm=True)) == 2


def test_spectral_norm_bounds_every_layer():
    torch.manual_seed(0)
    discriminator = DCGANDiscriminator((1, 16, 16), width=4, spectral_norm=True)
    layers = [layer for layer in discriminator.modules() if isinstance(layer, nn.Conv2d)]
    for layer, _ in itertools.product(layers, range(100)):
        layer.weight  # noqa: B018 - each look at it is a power iteration
    discriminator.eval()
    for layer in layers:
        assert torch.linalg.matrix_norm(layer.weight.flatten(1), 2).item() == pytest.approx(1, abs=1e-3)


def test_energy_gradient_flows_through_the_image_and_its_reconstruction():
    discriminator = BEGANDiscriminator((1, 16, 16), width=2).double()
    x = torch.randn(1, 1, 16, 16, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(discriminator(x).sum(), x)
    direction, step = torch.randn_like(x), 1e-6
    with torch.no_grad():
        derivative = (discriminator(x + step * direction) - discriminator(x - step * direction)).item() / (2 * step)
    assert (gradient * direction).sum().item() == pytest.approx(derivative, rel=1e-5)


@pytest.mark.parametrize(
    "discriminator",
    [
        DCGANDiscriminator((1, 32, 32), width=2),
        BEGANDiscriminator((1, 32, 32), width=2),
        R3GANDiscriminator((1, 32, 32), width=2),
        *(DiTDiscriminator((1, 32, 32), patch=8, width=8, heads=2, block=block) for block in ("dit", "gat")),
        *(ResNetDiscriminator((1, 32, 32), width=1, attention=attention).eval() for attention in (False, True)),
    ],
    ids=lambda made: type(made).__name__,
)
def test_images_do_not_see_each_other_in_a_default_discriminator(discriminator):
    """Spectral norm is at rest; weights are far from what they begin with, where attention and R3GAN's blocks do nothing."""
    discriminator = discriminator.double()
    for parameter in discriminator.parameters():
        nn.init.normal_(parameter, std=0.1)
    x = torch.randn(4, 1, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(discriminator(x)[:2], discriminator(x[:2]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("discriminator", "last"),
    [
        (ResNetDiscriminator((1, 32, 32), width=1, attention=True), "linear"),
        (R3GANDiscriminator((1, 16, 16), width=2), "linear"),
        *((DiTDiscriminator((1, 16, 16), width=8, heads=2, block=block, classes=3), "linear") for block in ("dit", "gat")),
        *((StyleGAN2Discriminator((1, 16, 16), width=2, classes=classes), "end.6") for classes in (0, 3)),
    ],
)
def test_the_last_layer_is_the_one_that_mixed_precision_looks_for(discriminator, last):
    assert [m for m in discriminator.modules() if isinstance(m, (nn.Linear, nn.Conv2d))][-1] is discriminator.get_submodule(
        last
    )
