"""DINOv2 and CLIP against NumPy, Pillow and the published sizes, with random weights."""

import dataclasses
import hashlib
import math

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp.evaluation.features import PUBLISHED, VisionTransformer, dinov2_in_timm, feature_source, in_timm
from ganexp.facts import UserError
from tests.evaluation.small_networks import SMALL, clip, random_weights

PARAMETERS = {
    "dinov2_vits14": 22_056_576 - 384,  # of the authors' code, without its token of masked patches
    "dinov2_vitb14": 86_580_480 - 768,
    "dinov2_vitl14": 304_368_640 - 1024,
    "clip_vitb32": 87_849_216,  # of the authors' code
    "clip_vitb16": 86_192_640,
    "clip_vitl14": 303_966_208,
    "clip_vitl14_336": 304_293_888,
}


def images(side, n=3, channels=3):
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(1)) * 2 - 1


@pytest.mark.parametrize("name", PUBLISHED)
def test_networks_have_as_many_parameters_as_the_published_ones(name):
    pytest.importorskip("timm")
    published = PUBLISHED[name]
    network = in_timm(published)
    positions = (37**2 - 16**2) * published.size  # which are interpolated beforehand
    of_timm = published.size if published.is_clip else -positions  # a bias of zeros after the projection
    assert sum(parameter.numel() for parameter in network.parameters()) == PARAMETERS[name] + of_timm
    assert published.size == network.num_features if not published.is_clip else network.num_classes


@pytest.mark.parametrize(("name", "side"), [("dinov2_vits14", 300), ("dinov2_vits14", 32), ("clip_vitb32", 90)])
def test_images_are_scaled_as_pillow_does_with_antialiasing_and_normalised(stored, name, side):
    network, x = VisionTransformer(name, stored), images(side, n=1)
    pixels = np.round((x[0].numpy() + 1) * 127.5).clip(0, 255).astype(np.uint8)
    to = (network.side, network.side)
    scaled = [Image.fromarray(one.astype(np.float32)).resize(to, Image.Resampling.BICUBIC) for one in pixels]
    expected = [(np.asarray(one) / 255 - m) / s for one, m, s in zip(scaled, network.mean, network.std, strict=True)]
    np.testing.assert_allclose(network.prepared(x)[0], np.stack(expected), atol=1e-4)


def interpolated(grid, size, factor):
    """Interpolate `(h, w, c)` bicubically, by Keys' kernel with a = −0.75, and with the borders repeated."""

    def kernel(t):
        t, a = abs(t), -0.75
        return (a + 2) * t**3 - (a + 3) * t**2 + 1 if t <= 1 else a * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0

    weights = np.zeros((size, len(grid)))
    for i in range(size):
        at = (i + 0.5) / factor - 0.5
        for j in range(math.floor(at) - 1, math.floor(at) + 3):
            weights[i, min(max(j, 0), len(grid) - 1)] += kernel(at - j)
    return np.einsum("ih,jw,hwc->ijc", weights, weights, grid)


def by_hand(p, x, *, patch, heads, depth):
    """Return DINOv2's class token of one prepared image `(3, S, S)`, by loops over patches and heads in NumPy."""

    def linear(of, x):
        return x @ p[f"{of}.weight"].T + p[f"{of}.bias"]

    def norm(of, x):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * p[f"{of}.weight"] + p[f"{of}.bias"]

    def gelu(x):
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    rows = [
        np.tensordot(p["patch_embed.proj.weight"], x[:, i : i + patch, j : j + patch], 3) + p["patch_embed.proj.bias"]
        for i in range(0, x.shape[1], patch)
        for j in range(0, x.shape[2], patch)
    ]
    tokens = np.stack([p["cls_token"][0, 0], *rows]) + p["pos_embed"][0]
    for i in range(depth):
        q, k, v = np.split(linear(f"blocks.{i}.attn.qkv", norm(f"blocks.{i}.norm1", tokens)), 3, axis=1)
        seen = []
        for one in np.split(np.arange(q.shape[1]), heads):
            scores = np.exp(q[:, one] @ k[:, one].T / math.sqrt(len(one)))
            seen.append(scores / scores.sum(1, keepdims=True) @ v[:, one])
        tokens = tokens + p[f"blocks.{i}.ls1.gamma"] * linear(f"blocks.{i}.attn.proj", np.concatenate(seen, 1))
        hidden = gelu(linear(f"blocks.{i}.mlp.fc1", norm(f"blocks.{i}.norm2", tokens)))
        tokens = tokens + p[f"blocks.{i}.ls2.gamma"] * linear(f"blocks.{i}.mlp.fc2", hidden)
    return norm("norm", tokens)[0]


def test_dinov2_is_the_network_by_hand(stored):
    network = VisionTransformer("dinov2_vits14", stored).double()
    x = images(20, n=2)
    weights = {of: value.double() for of, value in random_weights("dinov2_vits14").items()}
    grid = interpolated(weights["pos_embed"][0, 1:].view(37, 37, -1).numpy(), 16, 16.1 / 37).reshape(256, -1)
    weights = {of: value.numpy() for of, value in dinov2_in_timm(weights, 16).items()}
    np.testing.assert_allclose(weights["pos_embed"][0, 1:], grid, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(network.network.pos_embed, weights["pos_embed"], atol=1e-5)  # of a file in float32
    weights["pos_embed"] = network.network.pos_embed.numpy()
    prepared = network.prepared(x).numpy()
    found, logits = network(x)
    assert (found.shape, logits, network.size, network.classes) == ((2, 128), None, 128, 0)
    for one, expected in zip(found, prepared, strict=True):
        np.testing.assert_allclose(one, by_hand(weights, expected, patch=14, heads=2, depth=2), rtol=1e-9, atol=1e-10)


def test_clip_is_the_network_of_torch_fidelity_with_the_weights_of_the_file(stored):
    network, other = VisionTransformer("clip_vitb32", stored).double(), clip().double()
    published = random_weights("clip_vitb32", torch.float64).items()
    other.load_state_dict({of.removeprefix("visual."): value for of, value in published if of.startswith("visual.")})
    x = images(30)
    found = network(x)[0]
    assert (found.shape, network.size) == ((3, 24), 24)
    with torch.no_grad():
        np.testing.assert_allclose(found, other(network.prepared(x)), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", SMALL)
def test_grey_images_are_seen_as_colourless_ones(stored, name):
    network, grey = VisionTransformer(name, stored), images(16, channels=1)
    assert torch.equal(network(grey)[0], network(grey.expand(-1, 3, -1, -1))[0])
    saved = grey.add(1).mul(127.5).round().div(127.5).sub(1)
    assert torch.equal(network(saved + 1e-3)[0], network(grey)[0])
    with pytest.raises(UserError, match="these have 4 channels"):
        network(torch.zeros(2, 4, 16, 16))


@pytest.mark.parametrize("name", SMALL)
def test_weights_are_told_apart_by_their_checksum_and_half_precision_is_read(stored, name):
    network = VisionTransformer(name, stored)
    torch.save(random_weights(name, torch.float16), stored / SMALL[name].file)
    state = torch.get_rng_state()
    other = VisionTransformer(name, stored)
    assert torch.equal(torch.get_rng_state(), state)
    assert len({network.checksum, other.checksum}) == 2
    assert {parameter.dtype for parameter in other.parameters()} == {torch.float32}
    layer = "class token after the last norm" if name.startswith("dinov2") else "projected image embedding"
    assert network.name == other.name == f"{name} ({layer})"


def test_what_is_no_file_of_these_weights_is_refused_in_a_sentence(stored, monkeypatch):
    name = "dinov2_vits14"
    file = stored / SMALL[name].file
    weights = random_weights(name)
    for wrong in ({}, weights | {"norm.bias": torch.zeros(3)}, weights | {"register_tokens": torch.zeros(1)}, [1]):
        torch.save(wrong, file)
        with pytest.raises(UserError, match=r"has not the weights of dinov2_vits14 .*: put the file of https://dl\.fb"):
            VisionTransformer(name, stored)
    file.unlink()
    missing = feature_source(name, (3, 32, 32), str(stored)).missing
    assert missing.startswith(f"needs the file {file.name}, which is not in {stored}: put it there from")
    monkeypatch.setattr("ganexp.evaluation.features.find_spec", lambda name: None)
    assert "ganexp[features]" in feature_source(name, (3, 32, 32), str(stored)).missing


def test_checksums_are_those_that_caches_and_results_already_have(stored):
    """Of the authors' names and tensors, in the order of a block's parts as ganexp had them before timm."""
    checksums = {name: VisionTransformer(name, stored).checksum for name in SMALL}
    assert checksums == {"dinov2_vits14": "ccfd7812ea496efe", "clip_vitb32": "84d4ec2f3d16d9d9"}


class Visual(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        for of, value in weights.items():
            place, parts = self, of.split(".")
            for part in parts[:-1]:
                if part not in place._modules:
                    place.add_module(part, torch.nn.Module())
                place = getattr(place, part)
            place.register_parameter(parts[-1], torch.nn.Parameter(value))


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_an_archive_with_code_is_opened_only_if_it_is_the_published_one(stored, monkeypatch):
    name, path = "clip_vitb32", stored / SMALL["clip_vitb32"].file
    expected = VisionTransformer(name, stored).checksum
    torch.jit.save(torch.jit.script(Visual(random_weights(name))), path)
    with pytest.raises(UserError, match="has not the weights of clip_vitb32"):
        VisionTransformer(name, stored)
    published = dataclasses.replace(SMALL[name], sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setitem(PUBLISHED, name, published)
    assert VisionTransformer(name, stored).checksum == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_weights_see_that_a_darker_image_is_the_same(name):
    """Runs only where the file of weights lies in the folder of torch.hub."""
    source = feature_source(name, (3, 64, 64))
    if source.missing:
        pytest.skip(source.missing)
    rings = torch.linspace(-1, 1, 64)[:, None].square() + torch.linspace(-1, 1, 64).square()
    one = (8 * rings).sin().expand(1, 3, 64, 64)
    features = source.load(torch.device("cpu"))(torch.cat([one, 0.8 * one - 0.1, images(64, n=1)]))[0]
    assert features.isfinite().all()
    assert torch.cosine_similarity(features[:1], features[1:]).diff() < -0.1
