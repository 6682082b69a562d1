"""Styles are truncated towards their mean, wherever samples are drawn: against a mapping network written by hand in NumPy."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from ganexp.facts import UserError
from ganexp.logging.pictures import image_grid
from ganexp.networks import StyleGAN2Generator
from ganexp.sampling import Langevin, Trained
from ganexp.sampling.exporting import FORMS, export
from ganexp.sampling.files import Series, pixels
from ganexp.sampling.films import frames_of
from ganexp.sampling.trained import STYLES, latents
from tests.sampling import tiny_generators as tiny


def styled(classes=0, prior="normal"):
    torch.manual_seed(0)
    network = StyleGAN2Generator(5, (1, 16, 16), width=8, depth=2, **({"classes": classes} if classes else {}))
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return Trained(network, latent_dim=5, prior=prior, shape=(1, 16, 16), classes=classes, dtype=torch.float64)


def by_hand(G, z, labels):
    """Return styles `(B, width)`: both parts at a mean square of 1, then linear layers with leaky ReLU."""
    mapping = G.network.mapping
    parts = [z, (mapping.embedding.weight + mapping.bias).numpy()[labels]] if G.classes else [z]
    h = np.concatenate([part / np.sqrt((part**2).mean(1, keepdims=True) + 1e-8) for part in parts], 1)
    for layer in mapping.layers[::2]:
        h = h @ layer.weight.numpy().T + layer.bias.numpy()
        h = math.sqrt(2) * np.maximum(h, 0.2 * h)
    return h


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("prior", ["normal", "uniform"])
def test_the_mean_is_that_of_any_latents_and_of_all_classes_alike(classes, prior):
    G, n = styled(classes, prior), 60_000
    rng = np.random.default_rng(1)
    z = rng.standard_normal((n, 5)) if prior == "normal" else rng.uniform(-1, 1, (n, 5))
    w = by_hand(G, z, np.arange(n) % max(1, classes))
    off = np.abs(G.mean_style.numpy() - w.mean(0)) / (w.std(0) * math.sqrt(1 / STYLES + 1 / n))
    assert off.shape == (len(G.network.convolutions) + 1, 8)
    assert off.max() < 4.5


@pytest.mark.parametrize("psi", [-0.5, 0, 0.3, 1, 1.5])
@pytest.mark.parametrize("classes", [0, 3])
def test_styles_move_along_a_straight_line(classes, psi):
    G = styled(classes)
    w = by_hand(G, latents(range(6), 5, "normal", seed=2).numpy(), np.arange(6) % max(1, classes))
    mean = G.mean_style.numpy()
    expected = G.network.synthesis(torch.from_numpy(mean + psi * (w[:, None] - mean)))
    torch.testing.assert_close(G.sample(6, seed=2, truncation=psi), expected, rtol=1e-10, atol=1e-10)
    if psi == 1:
        assert torch.equal(G.sample(6, seed=2, truncation=psi), G.sample(6, seed=2))


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_files_films_and_exports_are_truncated_alike(tmp_path):
    G = styled(3)
    images = G.sample(4, truncation=0.3)
    assert not torch.allclose(images, G.sample(4), atol=0.1)
    assert np.array_equal(next(Series(G, truncation=0.3).batches(range(4)))[1], pixels(images))
    assert Series(G, truncation=0.3).described() != Series(G).described()
    first = next(frames_of(G, range(8), 2, tiles=4, truncation=0.3))
    assert np.array_equal(first, image_grid(images, columns=2))
    export(G.truncated(0.3), "torchscript", tmp_path / "x.ts")
    z = G.latents(range(4))
    made = FORMS["torchscript"][1]((tmp_path / "x.ts").read_bytes())(z.values, *z.conditions)
    torch.testing.assert_close(made, images, rtol=0, atol=1e-9)


def test_what_cannot_be_truncated_is_refused():
    G = styled()
    for refused in (
        lambda: G.sample(1, truncation=math.nan),
        lambda: G.latents([0], truncation=0.5),  # which would say nothing
        lambda: tiny.images().truncated(0.5),
        lambda: Langevin(G, nn.Sequential(nn.Flatten(), nn.Linear(256, 1), nn.Flatten(0))).sample(1, truncation=0.5),
    ):
        with pytest.raises(UserError, match="trunca"):
            refused()
