"""R3GAN's networks, against counts and formulas that are written out by hand."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from ganexp.networks import R3GANDiscriminator, R3GANGenerator
from ganexp.networks.r3gan import Bottleneck, Down, Up
from tests.tiny import count_parameters


def block(channels, groups):
    inner = 2 * channels
    return 2 * channels * inner + 9 * inner * inner // groups + 2 * inner


PUBLISHED = {  # the authors' channels and groups by stage, for CIFAR-10, FFHQ-64 and FFHQ-256
    32: ([768, 768, 768, 768], [96, 96, 96, 96]),
    64: ([768, 768, 768, 768, 384], [96, 96, 96, 96, 48]),
    256: ([768, 768, 768, 768, 384, 192, 96], [96, 96, 96, 96, 48, 24, 12]),
}


@pytest.mark.parametrize("size", PUBLISHED)
def test_published_networks_have_the_parameters_of_the_authors_plans(size):
    channels, groups = PUBLISHED[size]
    stages = sum(2 * block(c, g) for c, g in zip(channels, groups, strict=True))
    changes = sum(a * b for a, b in itertools.pairwise(channels) if a != b)
    with torch.device("meta"):
        generator, discriminator = R3GANGenerator(64, (3, size, size)), R3GANDiscriminator((3, size, size))
    assert count_parameters(generator) == stages + changes + 16 * 768 + 64 * 768 + 3 * channels[-1]
    assert count_parameters(discriminator) == stages + changes + 16 * 768 + 768 + 3 * channels[-1]
    if size == 32:
        assert (count_parameters(generator), count_parameters(discriminator)) == (20_732_160, 20_683_776)
    widths = [module.residual[4].out_channels for module in generator.modules() if isinstance(module, Bottleneck)]
    assert widths == [c for c in channels for _ in range(2)]
    widths = [module.residual[4].out_channels for module in discriminator.modules() if isinstance(module, Bottleneck)]
    assert widths == [c for c in reversed(channels) for _ in range(2)]


def test_resampling_is_bilinear_within_the_map_and_sees_zeros_outside():
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    padded = functional.pad(x, (2, 2, 2, 2))
    bilinear = functional.interpolate(padded, scale_factor=2, mode="bilinear")[..., 4:-4, 4:-4]
    torch.testing.assert_close(Up().double()(x), bilinear)
    bilinear = functional.interpolate(padded, scale_factor=0.5, mode="bilinear", antialias=True)[..., 1:-1, 1:-1]
    torch.testing.assert_close(Down().double()(x), bilinear)


def test_a_new_network_passes_its_input_by_every_block_and_its_branches_are_scaled_as_fixup_says():
    torch.manual_seed(0)
    x, block = torch.randn(2, 64, 4, 4), Bottleneck(64, total=16)
    assert torch.equal(block(x), x)
    first, _, second, _, last = block.residual
    gain = math.sqrt(2 / (1 + 0.2**2)) / 16**0.25
    assert first.weight.std().item() == pytest.approx(gain / math.sqrt(64), rel=0.03)
    assert second.weight.shape == (128, 16, 3, 3)
    assert second.weight.std().item() == pytest.approx(gain / math.sqrt(9 * 16), rel=0.03)
    assert not any(p.any() for p in (last.weight, first.bias, second.bias))
    blocks = [m for m in R3GANDiscriminator((1, 32, 32), width=64).modules() if isinstance(m, Bottleneck)]
    assert len(blocks) == 8
    gain *= 2**0.25  # 8 blocks instead of 16
    assert blocks[0].residual[0].weight.std().item() == pytest.approx(gain / math.sqrt(64), rel=0.03)


def test_a_block_is_its_formula():
    torch.manual_seed(0)
    block, x = Bottleneck(16, total=4).double(), torch.randn(2, 16, 4, 4, dtype=torch.float64)
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    first, _, second, _, last = block.residual
    h = torch.einsum("oi,bihw->bohw", first.weight[:, :, 0, 0], x) + first.bias[:, None, None]
    h = torch.maximum(h, 0.2 * h)
    groups = [  # 32 channels in two groups of 16
        functional.conv2d(h[:, i : i + 16], second.weight[i : i + 16], second.bias[i : i + 16], padding=1) for i in (0, 16)
    ]
    h = torch.cat(groups, 1)
    h = torch.maximum(h, 0.2 * h)
    torch.testing.assert_close(block(x), x + torch.einsum("oi,bihw->bohw", last.weight[:, :, 0, 0], h))


def test_a_new_generator_is_a_linear_map_of_z_and_basis():
    torch.manual_seed(0)
    generator = R3GANGenerator(5, (3, 16, 16), width=16).double()
    z, other = torch.randn(2, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(generator(z + 2 * other), generator(z) + 2 * generator(other))
    weights = z @ generator.linear.weight.T
    maps = torch.einsum("bc,chw->bchw", weights, generator.basis)
    images = torch.einsum("oc,bchw->bohw", generator.layers[-1].weight[:, :, 0, 0], maps)
    torch.testing.assert_close(generator(z), Up().double()(Up().double()(images)))
