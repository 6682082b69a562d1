"""Networks from image to image: the published sizes, what each output depends on, two ways in one, and what they refuse."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import interpolate

from ganexp.facts import Misfit
from ganexp.networks import (
    MultiscaleDiscriminator,
    PatchDiscriminator,
    ResNetTranslator,
    SRResNet,
    TwoWayDiscriminator,
    TwoWayGenerator,
    UNet,
)
from ganexp.training.execution import last_layer_in_float32
from tests.tiny import count_parameters

SMALL = {
    UNet: partial(UNet, width=2, depth=3),
    ResNetTranslator: partial(ResNetTranslator, width=2, blocks=1),
    SRResNet: partial(SRResNet, width=2, blocks=1, norm="none"),
}


def double(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize(
    ("made", "side", "parameters"),
    [
        (partial(UNet, norm="batch", dropout=0.5), 256, 54_413_955),
        (partial(UNet, depth=7, norm="batch", dropout=0.5), 128, 41_828_995),
        (ResNetTranslator, 256, 11_378_179),
        (partial(ResNetTranslator, blocks=6), 128, 7_837_699),
    ],
)
def test_the_authors_generators(made, side, parameters):
    """Counted in the code of pix2pix and CycleGAN in PyTorch."""
    with torch.device("meta"):
        generator = made((3, side, side), (3, side, side))
        assert count_parameters(generator) == parameters
        assert generator(torch.empty(2, 3, side, side)).shape == (2, 3, side, side)


@pytest.mark.parametrize(("depth", "dropouts"), [(8, 3), (7, 2), (6, 1)])
def test_dropout_is_where_the_authors_have_it(depth, dropouts):
    with torch.device("meta"):
        generator = UNet((3, 256, 256), (3, 256, 256), depth=depth, dropout=0.5)
    places = [i for i, up in enumerate(generator.up) if any(isinstance(one, nn.Dropout) for one in up)]
    assert places == [*range(1, 1 + dropouts)]  # after the innermost


def test_the_paper_of_srgan():
    """Figure 4: k9n64s1, 16 blocks, k3n64s1, two times k3n256s1, k9n3s1."""

    def convolution(before, after, kernel):
        return before * after * kernel**2 + after

    norm, prelu = 2 * 64, 1
    blocks = 16 * (2 * (convolution(64, 64, 3) + norm) + prelu)
    up = 2 * (convolution(64, 256, 3) + prelu)
    ends = convolution(3, 64, 9) + prelu + convolution(64, 64, 3) + norm + convolution(64, 3, 9)
    with torch.device("meta"):
        generator = SRResNet((3, 24, 24), (3, 96, 96))
        assert count_parameters(generator) == blocks + up + ends
        assert generator(torch.empty(2, 3, 24, 24)).shape == (2, 3, 96, 96)
        assert generator(torch.empty(2, 3, 10, 15)).shape == (2, 3, 40, 60)


@pytest.mark.parametrize("family", SMALL)
@pytest.mark.parametrize(("source", "shape"), [((1, 16, 24), (3, 16, 24)), ((3, 8, 8), (1, 8, 8))])
def test_sources_and_samples_may_differ_in_channels(family, source, shape):
    """Each image depends on its own source alone, and lies in [-1, 1]."""
    generator = SMALL[family](source, shape).double()
    x = (10 * double(3, *source)).requires_grad_()
    fake = generator(x)
    assert generator.reads_sources
    assert fake.shape == (3, *shape)
    assert fake.abs().max() <= 1
    (gradient,) = torch.autograd.grad(fake[0].sum(), x)
    assert gradient[0].any()
    assert not gradient[1:].any()


@pytest.mark.parametrize("family", SMALL)
def test_the_last_layer_makes_the_image(family):
    """Scaling the last weight, without bias, scales the image before tanh."""
    generator, x = SMALL[family]((1, 16, 16), (2, 16, 16)).double(), double(2, 1, 16, 16)
    nn.init.zeros_(generator.last.bias)
    before = generator(x).atanh()
    with torch.no_grad():
        generator.last_layer.mul_(3)
    torch.testing.assert_close(generator(x).atanh(), 3 * before)


def test_a_unet_is_its_formula():
    """Two levels, written out."""
    net, x = UNet((1, 8, 8), (1, 8, 8), width=2, depth=2, norm="none").double(), double(2, 1, 8, 8)
    outer, inner = net.down[0], net.down[1][1]
    high = nn.functional.conv2d(x, outer.weight, outer.bias, 2, 1)
    low = nn.functional.conv2d(torch.where(high > 0, high, 0.2 * high), inner.weight, inner.bias, 2, 1)
    up = nn.functional.conv_transpose2d(low.clamp(min=0), net.up[0][1].weight, net.up[0][1].bias, 2, 1)
    both = torch.cat([up, high], 1).clamp(min=0)
    wanted = nn.functional.conv_transpose2d(both, net.last.weight, net.last.bias, 2, 1).tanh()
    torch.testing.assert_close(net(x), wanted)


def test_every_pixel_of_a_unet_sees_every_pixel_of_the_source():
    net, x = UNet((1, 16, 16), (1, 16, 16), width=4, depth=4, norm="none").double(), double(1, 1, 16, 16).requires_grad_()
    (gradient,) = torch.autograd.grad(net(x)[0, 0, 0, 0], x)
    assert (gradient != 0).float().mean() > 0.99


@pytest.mark.parametrize(("blocks", "first", "last"), [(0, 38, 58), (2, 22, 74)])
def test_a_pixel_of_the_translator_sees_its_surroundings_alone(blocks, first, last):
    """Row 48 sees 45 to 51 before the last layer, 22 to 26 and 11 to 13 before it is doubled, and 2 more for each block."""
    net, x = ResNetTranslator((1, 96, 96), (1, 96, 96), width=2, blocks=blocks, norm="none").double(), torch.ones(1, 1, 96, 96)
    for weight in net.parameters():
        nn.init.constant_(weight, 1e-3)  # so that no path is cut off, and none cancels another
    x = x.double().requires_grad_()
    (gradient,) = torch.autograd.grad(net(x)[0, 0, 48, 48], x)
    for dim in (0, 1):
        seen = gradient[0, 0].abs().sum(dim).nonzero().flatten()
        assert (seen[0], seen[-1]) == (first, last)


class Scale(nn.Module):
    """A translator that multiplies by a weight of its own."""

    def __init__(self, source, shape):
        super().__init__()
        assert source == shape == (3, 8, 8)
        self.weight = nn.Parameter(torch.randn(()).double())

    def forward(self, x):
        return self.weight * x


def test_two_translators_exchange_the_halves_of_a_stack():
    generator, a, b = TwoWayGenerator((6, 8, 8), (6, 8, 8), of=Scale), double(2, 3, 8, 8), double(2, 3, 8, 8)
    fake = generator(torch.cat([a, b], 1))
    g, f = generator.a_to_b.weight, generator.b_to_a.weight
    torch.testing.assert_close(fake, torch.cat([f * b, g * a], 1))
    torch.testing.assert_close(generator(fake), torch.cat([f * g * a, g * f * b], 1))


@pytest.mark.parametrize("of", [PatchDiscriminator, partial(MultiscaleDiscriminator, scales=2)])
def test_two_discriminators_look_at_one_half_each(of):
    of, a, b = partial(of, width=2, layers=1), double(2, 3, 16, 16), double(2, 3, 16, 16)
    discriminator, x = TwoWayDiscriminator((6, 16, 16), of=of).double(), torch.cat([a, b], 1)
    one, other = discriminator.halves
    parts = [one(a).flatten(2), other(b).flatten(2)]
    torch.testing.assert_close(discriminator(x), torch.cat(parts, 2))
    assert sum(discriminator.heads) == discriminator(x).shape[2]
    assert sum(one.heads) == parts[0].shape[2]
    features = [*one.features(a), *other.features(b)]
    assert all(map(torch.equal, discriminator.features(x), features))


def test_the_last_layers_of_both_halves_stay_out_of_mixed_precision():
    discriminator = TwoWayDiscriminator((2, 32, 32), of=partial(MultiscaleDiscriminator, width=2, layers=2))
    last_layer_in_float32(discriminator)
    for one in (scale for half in discriminator.halves for scale in half.scales):
        with torch.autocast("cpu", torch.bfloat16):
            assert one(torch.zeros(1, 1, 32, 32)).dtype == torch.float32


@pytest.mark.parametrize("source", [(2, 32, 32), (2, 8, 8)])
@pytest.mark.parametrize("of", [PatchDiscriminator, partial(MultiscaleDiscriminator, scales=2)])
def test_a_discriminator_that_reads_sources_looks_at_both(of, source):
    """As one of images with more channels; a smaller source is enlarged."""
    of, x, y = partial(of, width=2, layers=2), double(3, 1, 32, 32), double(3, *source)
    reading, plain = of((1, 32, 32), source=source).double(), of((3, 32, 32)).double()
    assert reading.reads_source
    assert not plain.reads_source
    plain.load_state_dict(reading.state_dict())
    wanted = torch.cat([x, interpolate(y, (32, 32))], 1)
    torch.testing.assert_close(reading(x, y), plain(wanted))
    assert all(map(torch.equal, reading.features(x, y), plain.features(wanted)))


@pytest.mark.parametrize("norm", ["none", "batch", "instance", "spectral"])
def test_features_are_all_layers_but_the_last(norm):
    discriminator, x = PatchDiscriminator((1, 32, 32), width=2, layers=2, norm=norm).double().eval(), double(2, 1, 32, 32)
    features = discriminator.features(x)
    assert [tuple(one.shape[1:]) for one in features] == [(2, 16, 16), (4, 8, 8), (8, 7, 7)]
    torch.testing.assert_close(discriminator.layers[-1](features[-1]), discriminator(x))


def test_sizes_that_a_network_cannot_take_are_refused():
    one = (3, 24, 48)
    with pytest.raises(Misfit) as refused:
        UNet(one, one, depth=4)
    assert refused.value.remedy == {"depth": 3}
    UNet(one, one, depth=3, width=1)(torch.zeros(1, *one))
    with pytest.raises(Misfit) as refused:
        UNet((3, 31, 31), (3, 31, 31), depth=4)
    assert refused.value.remedy == {"dataset.image_size": 16}
    with pytest.raises(Misfit) as refused:
        UNet(one, one, depth=3, dropout=0.5)
    assert refused.value.remedy == {"dropout": 0}
    with pytest.raises(Misfit) as refused:
        ResNetTranslator((3, 30, 30), (3, 30, 30))
    assert refused.value.remedy == {"dataset.image_size": 28}
    with pytest.raises(ValueError, match=r"^samples should"):
        SRResNet((3, 8, 8), (3, 24, 24))
    for family in (UNet, ResNetTranslator):
        with pytest.raises(ValueError, match="srresnet"):
            SMALL[family]((3, 8, 8), (3, 16, 16))
    for shapes in (((3, 16, 16), (3, 16, 16)), ((4, 16, 16), (2, 16, 16))):
        with pytest.raises(ValueError, match="unpaired"):
            TwoWayGenerator(*shapes)
    with pytest.raises(ValueError, match="patch"):
        TwoWayDiscriminator((2, 16, 16), of=lambda shape: nn.Identity())
    for family in SMALL:
        with pytest.raises(ValueError, match="image"):
            SMALL[family]((5,), (3, 16, 16))
