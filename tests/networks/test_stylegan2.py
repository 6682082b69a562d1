"""StyleGAN2: published sizes, modulation and resampling against loops, styles, noise, and path lengths by dense Jacobians."""

import numpy as np
import pytest
import torch
from torch import nn

from ganexp.batch import Batch
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.networks import StyleGAN2Discriminator, StyleGAN2Generator
from ganexp.networks.stylegan2 import ModulatedConvolution
from ganexp.penalties import PathLength
from tests.composing import composed
from tests.tiny import count_parameters


@pytest.mark.parametrize(
    ("side", "base", "depth", "residual", "classes", "published"),
    [
        (32, 32768, 2, False, 0, (19_947_539, 20_720_641)),  # ADA's CIFAR-10
        (32, 32768, 2, False, 10, (20_215_315, 23_089_664)),
        (64, 16384, 8, True, 0, (23_819_544, 23_407_361)),
        (256, 16384, 8, True, 0, (24_767_458, 24_001_089)),  # ADA's FFHQ at 256
        (1024, 32768, 8, True, 0, (30_370_060, 29_012_513)),  # the paper's config F
    ],
)
def test_sizes_are_those_of_the_authors_networks(side, base, depth, residual, classes, published):
    with torch.device("meta"):
        generator = StyleGAN2Generator(512, (3, side, side), base=base, depth=depth, classes=classes)
        discriminator = StyleGAN2Discriminator((3, side, side), base=base, residual=residual, classes=classes)
    assert (count_parameters(generator), count_parameters(discriminator)) == published


def by_loops(layer, x, style):
    """Equations 1 and 3, with weights of each sample, and twice the side by zeros in between and the kernel."""
    weight, gain = layer.weight.detach().numpy(), layer.gain
    scales = layer.style(style).detach().numpy()
    made, taps = [], np.array([1.0, 3.0, 3.0, 1.0]) / 4
    for image, s in zip(x.numpy(), scales, strict=True):
        w = gain * weight * s[None, :, None, None]
        if layer.demodulate:
            w = w / np.sqrt((w**2).sum((1, 2, 3), keepdims=True) + 1e-8)
        if layer.filter is None:
            made.append(correlated(image, w, w.shape[2] // 2))
            continue
        wide = np.zeros((image.shape[0], 2 * image.shape[1] - 1, 2 * image.shape[2] - 1))
        wide[:, ::2, ::2] = image
        spread = correlated(wide, w[:, :, ::-1, ::-1], 2)
        kernel = np.zeros((len(w), len(w), 4, 4))
        kernel[range(len(w)), range(len(w))] = taps[:, None] * taps
        made.append(correlated(spread, kernel, 1))
    return np.stack(made)


def correlated(image, weight, padding):
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    size = weight.shape[2]
    made = np.zeros((len(weight), padded.shape[1] - size + 1, padded.shape[2] - size + 1))
    for down in range(made.shape[1]):
        for right in range(made.shape[2]):
            made[:, down, right] = (weight * padded[None, :, down : down + size, right : right + size]).sum((1, 2, 3))
    return made


@pytest.mark.parametrize(("kernel", "settings"), [(3, {}), (3, {"up": True}), (1, {"demodulate": False})])
def test_modulated_convolutions_are_those_of_weights_of_each_sample(kernel, settings):
    torch.manual_seed(0)
    layer = ModulatedConvolution(3, 2, 5, kernel, **settings).double()
    x, style = torch.randn(4, 3, 4, 6, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
    made = layer(x, style).detach().numpy()
    assert made.shape == ((4, 2, 8, 12) if "up" in settings else (4, 2, 4, 6))
    np.testing.assert_allclose(made, by_loops(layer, x, style), rtol=1e-10, atol=1e-12)


def test_demodulated_outputs_begin_with_a_variance_of_one():
    torch.manual_seed(0)
    made = ModulatedConvolution(64, 64, 8)(torch.randn(8, 64, 16, 16), torch.randn(8, 8))
    assert made[..., 1:-1, 1:-1].std().item() == pytest.approx(1, abs=0.1)


def test_layers_have_equalised_learning_rates():
    """By a step of Adam every kept weight moves by the rate, so a weight by the rate over the root of its fan-in."""
    D = StyleGAN2Discriminator((3, 16, 16), width=4)
    layer = D.end[4]
    before = layer.weight.detach().clone()
    assert D.end[4].parametrizations.weight.original.std().item() == pytest.approx(1, abs=0.15)
    optimizer = torch.optim.Adam(D.parameters(), lr=0.1)
    D(torch.randn(4, 3, 16, 16)).square().sum().backward()
    optimizer.step()
    moved = (layer.weight - before).abs().flatten()
    assert moved.median().item() == pytest.approx(0.1 / 64**0.5, rel=1e-3)


def test_samples_are_functions_of_latents_in_evaluation_and_noisy_in_training():
    torch.manual_seed(0)
    G, z = StyleGAN2Generator(3, (3, 16, 16), width=4, style_mixing=0.0), torch.randn(2, 3)
    assert torch.equal(G(z), G(z))  # strengths begin at 0
    for layer in G.convolutions:
        nn.init.ones_(layer.strength)
    assert not torch.equal(G(z), G(z))
    assert torch.equal(G.eval()(z), G(z))
    assert not any("constant" in name for name in StyleGAN2Generator(3, (3, 16, 16), width=4, noise=False).state_dict())


def test_styles_are_mixed_from_a_random_layer_on():
    torch.manual_seed(0)
    G, z = StyleGAN2Generator(3, (3, 16, 16), width=4, style_mixing=0.5), torch.randn(4000, 3)
    plain = G.mapping(z)
    same = (G.styles(z) == plain[:, None]).all(2)
    assert same.shape == (4000, 6)
    first = same.sum(1)
    assert all((row[:n]).all() for row, n in zip(same, first, strict=True))
    shares = torch.bincount(first, minlength=7) / 4000
    torch.testing.assert_close(shares, torch.tensor([0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5]), rtol=0, atol=0.03)
    assert (G.eval().styles(z) == plain[:, None]).all()


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 32, 64), (3, 64, 16)])
def test_images_need_not_be_square(shape):
    G, D, labels = (
        StyleGAN2Generator(3, shape, width=4, classes=2),
        StyleGAN2Discriminator(shape, width=4, classes=2),
        torch.ones(4).long(),
    )
    fake = G(torch.randn(4, 3), labels)
    assert fake.shape == (4, *shape)
    assert D(fake, labels).shape == (4,)
    assert not torch.equal(D(fake, labels), D(fake, 0 * labels))


def test_path_lengths_are_those_of_a_dense_jacobian():
    torch.manual_seed(0)
    G = StyleGAN2Generator(3, (1, 16, 16), width=4, depth=2, style_mixing=0.0, noise=False).double()
    penalty, again = PathLength(weight=2.0, every=3, share=0.5, decay=0.9), PathLength()
    for one in (penalty, again):
        one.begin(0, torch.device("cpu"))
    z = torch.randn(4, 3, dtype=torch.float64)
    fake = Batch(G(z), source=z)
    y = torch.empty(2, 1, 16, 16, dtype=torch.float64).normal_(generator=again.rng) / 16
    lengths = []
    for i in range(2):
        styles = G.styles(z[2 * i : 2 * i + 1])
        dense = torch.autograd.functional.jacobian(lambda one: G.synthesis(one).flatten(), styles).flatten(1)
        moved = (y[i].flatten() @ dense).view(styles.shape[1:])
        lengths.append(moved.square().sum(1).mean().sqrt().item())
    a = 0.1 * np.mean(lengths)
    term = penalty.g_term(G, fake, G)
    assert term.item() == pytest.approx(3 * 2 * np.mean([(length - a) ** 2 for length in lengths]), rel=1e-10)
    assert penalty.mean == 0  # looking moves nothing
    for due in (False, False, True):
        penalty.advance_g()
        assert (penalty.g_term(G, fake, G) is not None) == due
    assert penalty.mean.item() == pytest.approx(a, rel=1e-12)
    resumed = PathLength(every=3)
    resumed.begin(1, torch.device("cpu"))
    resumed.load_state_dict(penalty.state_dict())
    assert (resumed.passed, resumed.mean.item()) == ({"updates": 3}, pytest.approx(a))


def test_path_lengths_of_other_generators_are_refused():
    with pytest.raises(
        UserError, match=r"penalty\.path_length looks at how samples move with their styles.*generator=stylegan2"
    ):
        check(composed("penalty=path_length"))
