"""Patch discriminators: the published sizes, what each place sees, several scales in one, and what they refuse."""

import pytest
import torch
from torch import nn
from torch.nn.functional import avg_pool2d

from ganexp.facts import Misfit
from ganexp.networks import MultiscaleDiscriminator, PatchDiscriminator
from ganexp.training.execution import last_layer_in_float32
from tests.tiny import count_parameters


@pytest.mark.parametrize(
    ("channels", "norm", "parameters"),
    [
        (6, "batch", 2_768_705),
        (3, "instance", 2_764_737),
    ],  # pix2pix on source and image, CycleGAN: counted in the authors' code
)
def test_the_papers_discriminator(channels, norm, parameters):
    discriminator = PatchDiscriminator((channels, 256, 256), norm=norm)
    assert count_parameters(discriminator) == parameters
    assert discriminator(torch.zeros(1, channels, 256, 256)).shape == (1, 1, 30, 30)


@pytest.mark.parametrize(("layers", "patch"), [(1, 16), (2, 34), (3, 70)])
def test_a_place_sees_its_patch_alone(layers, patch):
    side = 16 * 2**layers
    discriminator = PatchDiscriminator((1, side, side), width=2, layers=layers).double()
    x = torch.randn(2, 1, side, side, dtype=torch.float64, requires_grad=True)
    scores = discriminator(x)
    middle = scores.shape[-1] // 2
    (gradient,) = torch.autograd.grad(scores[0, 0, middle, middle], x)
    rows, columns = (gradient[0, 0].abs().sum(dim).nonzero().flatten() for dim in (1, 0))
    assert not gradient[1].any()
    for seen in (rows, columns):
        assert seen[-1] - seen[0] + 1 == patch


@pytest.mark.parametrize("norm", ["none", "instance", "spectral"])
def test_images_do_not_see_each_other_without_batch_norm(norm):
    discriminator = PatchDiscriminator((1, 32, 32), width=2, layers=2, norm=norm).double().eval()
    x = torch.randn(4, 1, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(discriminator(x)[:2], discriminator(x[:2]), rtol=1e-12, atol=1e-13)


def test_spectral_norm_bounds_every_layer():
    torch.manual_seed(0)  # power iteration takes long for some weights
    discriminator = PatchDiscriminator((3, 32, 32), width=4, layers=2, norm="spectral")
    for _ in range(100):
        discriminator(torch.randn(2, 3, 32, 32))
    weights = [one.weight.flatten(1) for one in discriminator.modules() if isinstance(one, nn.Conv2d)]
    assert len(weights) == 4
    assert all(torch.linalg.matrix_norm(one, 2).item() == pytest.approx(1, abs=0.001) for one in weights)


@pytest.mark.parametrize("shape", [(3, 64, 64), (3, 50, 35)])
def test_scales_are_patch_discriminators_of_smaller_images(shape):
    discriminator, x = MultiscaleDiscriminator(shape, width=2, layers=2, scales=2).double(), torch.randn(2, *shape).double()
    large, small = discriminator.scales
    smaller = avg_pool2d(nn.functional.pad(x, (1, 1, 1, 1)), 3, 2) * 9
    smaller = smaller / (avg_pool2d(nn.functional.pad(torch.ones_like(x), (1, 1, 1, 1)), 3, 2) * 9)  # means of what is there
    wanted = [large(x).flatten(2), small(smaller).flatten(2)]
    assert discriminator.heads == tuple(one.shape[2] for one in wanted)
    torch.testing.assert_close(discriminator(x), torch.cat(wanted, 2), rtol=1e-12, atol=1e-14)


def test_the_last_layer_of_each_scale_stays_out_of_mixed_precision():
    discriminator = MultiscaleDiscriminator((1, 32, 32), width=2, layers=2)
    last_layer_in_float32(discriminator)
    for one in discriminator.scales:
        with torch.autocast("cpu", torch.bfloat16):
            assert one.layers[0](torch.zeros(1, 1, 32, 32)).dtype == torch.bfloat16
            assert one(torch.zeros(1, 1, 32, 32)).dtype == torch.float32


def test_images_that_are_too_small_are_refused():
    with pytest.raises(Misfit) as refused:
        PatchDiscriminator((1, 23, 23))
    assert refused.value.remedy == {"layers": 2}
    PatchDiscriminator((1, 24, 24))(torch.zeros(1, 1, 24, 24))
    with pytest.raises(Misfit) as refused:
        MultiscaleDiscriminator((1, 32, 32), layers=2, scales=3)
    assert "scales" in refused.value.remedy
    with pytest.raises(ValueError, match="mlp"):
        PatchDiscriminator((2,))
