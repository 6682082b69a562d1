"""SNGAN's residual networks, against counts and formulas that are written out by hand."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from ganexp.networks import ResNetDiscriminator, ResNetGenerator
from ganexp.networks.attention import SelfAttention
from ganexp.networks.residual import DownBlock, FirstBlock, UpBlock
from tests.tiny import count_parameters


def g_block(a, b):
    """Two batch norms, two 3×3 convolutions and a 1×1 one."""
    return 2 * a + (9 * a * b + b) + 2 * b + (9 * b * b + b) + (a * b + b)


def d_block(a, b, *, shortcut=True):
    return (9 * a * a + a) + (9 * a * b + b) + (a * b + b) * shortcut


def first_block(b):
    return (9 * 3 * b + b) + (9 * b * b + b) + (3 * b + b)


def ends(latent, first, side, last):
    """The generator's linear layer, its last batch norm and its last convolution."""
    return latent * first * side**2 + first * side**2 + 2 * last + 9 * last * 3 + 3


PUBLISHED = {  # the layers of the papers' tables, in their order
    32: (
        ends(128, 256, 4, 256) + 3 * g_block(256, 256),
        first_block(128) + d_block(128, 128) + 2 * d_block(128, 128, shortcut=False) + 128 + 1,
    ),
    48: (
        ends(128, 512, 6, 64) + g_block(512, 256) + g_block(256, 128) + g_block(128, 64),
        first_block(64) + d_block(64, 128) + d_block(128, 256) + d_block(256, 512) + d_block(512, 1024) + 1024 + 1,
    ),
    64: (
        ends(128, 1024, 4, 64) + g_block(1024, 512) + g_block(512, 256) + g_block(256, 128) + g_block(128, 64),
        first_block(64) + d_block(64, 128) + d_block(128, 256) + d_block(256, 512) + d_block(512, 1024) + 1024 + 1,
    ),
    128: (
        ends(128, 1024, 4, 64) + sum(g_block(a, b) for a, b in [(1024, 1024), (1024, 512), (512, 256), (256, 128), (128, 64)]),
        first_block(64)
        + sum(d_block(a, b) for a, b in [(64, 128), (128, 256), (256, 512), (512, 1024)])
        + d_block(1024, 1024, shortcut=False)
        + 1024
        + 1,
    ),
}


@pytest.mark.parametrize("size", PUBLISHED)
def test_published_networks_have_the_parameters_of_the_papers_tables(size):
    with torch.device("meta"):
        networks = ResNetGenerator(128, (3, size, size)), ResNetDiscriminator((3, size, size))
    assert tuple(map(count_parameters, networks)) == PUBLISHED[size]
    if size == 32:
        assert PUBLISHED[32] == (4_276_739, 1_053_825)


@pytest.mark.parametrize("size", PUBLISHED)
@pytest.mark.parametrize("attention", [False, True])
def test_images_of_each_size_go_through(size, attention):
    shape = (1, size, size)
    generator = ResNetGenerator(5, shape, width=1, attention=attention)
    discriminator = ResNetDiscriminator(shape, width=1, attention=attention)
    sides = []
    for network in (generator, discriminator):
        for module in network.modules():
            if isinstance(module, SelfAttention):
                module.register_forward_hook(lambda _, inputs, __: sides.append(inputs[0].shape[-1]))
    fake = generator(torch.randn(3, 5))
    assert fake.shape == (3, *shape)
    assert fake.abs().max() <= 1
    assert discriminator(fake).shape == (3,)
    assert sides == ([{32: 16, 48: 24}.get(size, 32)] * 2 if attention else [])


@pytest.mark.parametrize("size", [16, 28, 96, 256])
def test_other_sizes_are_refused_with_those_there_are(size):
    for make in (lambda shape: ResNetGenerator(5, shape), ResNetDiscriminator):
        with pytest.raises(ValueError, match=rf"^shape should be .*, not {size}×{size}"):
            make((3, size, size))
        with pytest.raises(ValueError, match="not 32×64"):
            make((3, 32, 64))
        with pytest.raises(ValueError, match="choose the mlp networks"):
            make((2,))


def conv(layer, x):
    return F.conv2d(x, layer.weight, layer.bias, padding=layer.kernel_size[0] // 2)


def test_blocks_are_the_authors_where_the_shortcut_is_computed_at_the_larger_side():
    torch.manual_seed(0)
    x = torch.randn(3, 4, 8, 8, dtype=torch.float64)
    up, down, first = UpBlock(4, 6).double(), DownBlock(4, 6).double(), FirstBlock(4, 6).double()
    for block in (up, down, first):
        for parameter in block.parameters():
            nn.init.normal_(parameter)

    def normalized(norm, h):
        mean, variance = h.mean((0, 2, 3), keepdim=True), h.var((0, 2, 3), correction=0, keepdim=True)
        return norm.weight.view(-1, 1, 1) * (h - mean) / (variance + norm.eps).sqrt() + norm.bias.view(-1, 1, 1)

    def doubled(h):
        return h.repeat_interleave(2, 2).repeat_interleave(2, 3)

    def halved(h):
        return (h[..., ::2, ::2] + h[..., 1::2, ::2] + h[..., ::2, 1::2] + h[..., 1::2, 1::2]) / 4

    h = conv(up.conv_2, normalized(up.norm_2, conv(up.conv_1, doubled(normalized(up.norm_1, x).relu()))).relu())
    torch.testing.assert_close(up(x), h + conv(up.shortcut, doubled(x)))
    _, one, _, two, _ = down.residual
    torch.testing.assert_close(down(x), halved(conv(two, conv(one, x.relu()).relu())) + halved(conv(down.shortcut[1], x)))
    one, _, two, _ = first.residual
    torch.testing.assert_close(first(x), halved(conv(two, conv(one, x).relu())) + halved(conv(first.shortcut[1], x)))


def test_mimicrys_departures_are_bilinear_doubling_and_a_relu_in_place():
    torch.manual_seed(0)
    generator = ResNetGenerator(5, (1, 32, 32), width=1, upsampling="bilinear").double().eval()
    discriminator = ResNetDiscriminator((1, 32, 32), width=1, spectral_norm=False, activated_shortcut=True).double()
    z, x = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, 1, 32, 32, dtype=torch.float64)
    h = generator.first(generator.linear(z))
    for block in generator.blocks:
        wide = F.interpolate(block.norm_1(h).relu(), scale_factor=2, mode="bilinear", align_corners=False)
        shortcut = conv(block.shortcut, F.interpolate(h, scale_factor=2, mode="bilinear", align_corners=False))
        h = conv(block.conv_2, block.norm_2(conv(block.conv_1, wide)).relu()) + shortcut
    torch.testing.assert_close(generator(z), generator.image(generator.norm(h).relu()).tanh())

    h = discriminator.blocks[0](x)
    for block in discriminator.blocks[1:]:
        one, two = (layer for layer in block.residual if isinstance(layer, nn.Conv2d))
        narrow = [layer for layer in block.shortcut.modules() if isinstance(layer, nn.Conv2d)]
        copied = h.clone()
        made = conv(two, conv(one, F.relu(copied, inplace=True)).relu())
        shortcut = conv(narrow[0], copied) if narrow else copied  # which the ReLU has changed
        h = F.avg_pool2d(made, 2) + F.avg_pool2d(shortcut, 2) if narrow else made + shortcut
    torch.testing.assert_close(discriminator(x), discriminator.linear(h.relu().sum((2, 3))).flatten(0))


def test_weights_start_from_xaviers_distribution_with_the_published_gains():
    torch.manual_seed(0)
    generator, discriminator = ResNetGenerator(128, (3, 32, 32), width=8), ResNetDiscriminator((3, 32, 32), spectral_norm=False)
    in_blocks = {id(layer) for network in (generator, discriminator) for layer in network.blocks.modules()}
    for layer in [*generator.modules(), *discriminator.modules()]:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            area = math.prod(layer.weight.shape[2:])
            gain = math.sqrt(2) if area == 9 and id(layer) in in_blocks else 1
            bound = gain * math.sqrt(6 / (area * (layer.weight.shape[0] + layer.weight.shape[1])))
            assert 0.95 * bound < layer.weight.abs().max() <= bound
            assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)
            assert not layer.bias.any()


def test_spectral_norm_bounds_every_layer_of_the_discriminator_and_can_be_had_in_the_generator():
    torch.manual_seed(0)
    discriminator = ResNetDiscriminator((1, 32, 32), width=2, attention=True)
    generator = ResNetGenerator(5, (1, 32, 32), width=1, attention=True, spectral_norm=True)
    for network in (discriminator, generator):
        layers = [layer for layer in network.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
        for layer, _ in itertools.product(layers, range(50)):
            layer.weight  # noqa: B018 - each look at it is a power iteration
        network.eval()
        assert len(layers) == 15
        for layer in layers:
            assert torch.linalg.matrix_norm(layer.weight.flatten(1), 2).item() == pytest.approx(1, abs=2e-2)
    assert not any("parametrizations" in name for name, _ in ResNetGenerator(5, (1, 32, 32), width=1).named_parameters())
    assert layers[-1] is generator.image


def test_attention_is_the_papers_equations():
    torch.manual_seed(0)
    block = SelfAttention(16).double()
    x = torch.randn(2, 16, 3, 4, dtype=torch.float64)
    assert torch.equal(block(x), x)
    nn.init.constant_(block.gamma, 0.7)
    f, g, h, v = (layer.weight.detach().numpy()[:, :, 0, 0] for layer in (block.f, block.g, block.h, block.v))
    assert f.shape == g.shape == h.shape == (2, 16)
    expected = np.empty((2, 16, 12))
    for b, positions in enumerate(x.numpy().reshape(2, 16, 12)):
        for j in range(12):
            s = np.array([(f @ positions[:, i]) @ (g @ positions[:, j]) for i in range(12)])
            beta = np.exp(s) / np.exp(s).sum()
            expected[b, :, j] = 0.7 * v @ sum(beta[i] * (h @ positions[:, i]) for i in range(12)) + positions[:, j]
    torch.testing.assert_close(block(x).detach(), torch.from_numpy(expected.reshape(2, 16, 3, 4)))
