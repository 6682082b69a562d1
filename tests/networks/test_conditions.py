"""How networks read class labels, against what the papers write."""

import pytest
import torch
from torch import nn

from ganexp.networks import (
    DCGANDiscriminator,
    DCGANGenerator,
    MLPDiscriminator,
    MLPGenerator,
    R3GANDiscriminator,
    R3GANGenerator,
    ResNetDiscriminator,
    ResNetGenerator,
)
from ganexp.networks.conditions import ConditionalBatchNorm2d

LABELS = torch.tensor([0, 2, 1, 2, 0])


def test_conditional_batch_norm_is_batch_norm_with_a_gain_and_a_bias_per_class():
    norm, x = ConditionalBatchNorm2d(4, classes=3).double(), torch.randn(5, 4, 6, 6, dtype=torch.float64)
    for embedding in (norm.gain, norm.bias):
        nn.init.normal_(embedding.weight)
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
    normal = (x - mean) / (var + 1e-5).sqrt()
    out = norm(x, LABELS)
    for i, label in enumerate(LABELS):
        by_hand = norm.gain.weight[label].view(4, 1, 1) * normal[i] + norm.bias.weight[label].view(4, 1, 1)
        torch.testing.assert_close(out[i], by_hand, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("network", [MLPDiscriminator, DCGANDiscriminator])
def test_a_projection_adds_the_inner_product_of_features_and_class(network):
    """Miyato & Koyama 2018, equation 3: f(x, y) = y'V φ(x) + ψ(φ(x))."""
    D, x = network((1, 16, 16), width=3, classes=3).double(), torch.randn(5, 1, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(D(x, LABELS), D.layers(x), rtol=0, atol=0)  # vectors begin at 0
    nn.init.normal_(D.projection.embedding.weight)
    seen = []
    D.layers[-2].register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    scores, plain = D(x, LABELS), D.layers(x)
    features = seen[0] if seen[0].dim() == 2 else seen[0].sum((2, 3))
    for i, label in enumerate(LABELS):
        by_hand = plain[i] + D.projection.embedding.weight[label] @ features[i]
        torch.testing.assert_close(scores[i], by_hand, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("spectral_norm", [False, True])
def test_resnets_project_on_normalised_vectors_that_start_as_other_weights_do(spectral_norm):
    """Miyato & Koyama 2018, equation 3 and figure 14."""
    torch.manual_seed(0)
    D = ResNetDiscriminator((1, 32, 32), width=3, classes=3, spectral_norm=spectral_norm).double().eval()
    vectors = D.projection.embedding.weight.detach()
    largest = (6 / (3 + 6)) ** 0.5  # Xavier's bound for 3 classes and 6 features
    assert 0.8 * largest < (D.projection.embedding.parametrizations.weight.original if spectral_norm else vectors).abs().max()
    if spectral_norm:  # by 15 power iterations
        assert torch.linalg.svdvals(vectors)[0].item() == pytest.approx(1, abs=1e-3)
    seen, x = [], torch.randn(5, 1, 32, 32, dtype=torch.float64)
    D.linear.register_forward_hook(lambda module, inputs, out: seen.append((inputs[0], out[:, 0])))
    scores, (features, plain) = D(x, LABELS), seen[0]
    for i, label in enumerate(LABELS):
        torch.testing.assert_close(scores[i], plain[i] + vectors[label] @ features[i], rtol=1e-12, atol=1e-13)


def test_resnet_blocks_have_conditional_batch_norms_and_the_image_a_plain_one():
    G = ResNetGenerator(3, (1, 32, 32), width=2, classes=3, attention=True, spectral_norm=True)
    conditional = [name for name, module in G.named_modules() if isinstance(module, ConditionalBatchNorm2d)]
    assert conditional == [f"blocks.{i}.norm_{j}" for i in (0, 1, 3) for j in (1, 2)]
    assert type(G.norm) is nn.BatchNorm2d
    assert not any("gain.parametrizations" in name or "bias.parametrizations" in name for name in G.state_dict())


def test_r3gans_logit_is_an_inner_product_with_the_class():
    torch.manual_seed(0)
    D, x = R3GANDiscriminator((1, 16, 16), width=64, classes=3).double(), torch.randn(5, 1, 16, 16, dtype=torch.float64)
    vectors = D.projection.embedding.weight
    assert vectors.std().item() == pytest.approx((64 * 3) ** -0.5, rel=0.15)  # three standard deviations
    made = D.linear(D.layers(x))
    torch.testing.assert_close(D(x, LABELS), torch.einsum("bf,bf->b", made, vectors[LABELS]), rtol=1e-12, atol=1e-13)
    embedding = R3GANGenerator(64, (1, 16, 16), width=2, classes=3).condition.embedding
    assert embedding.weight.std().item() == pytest.approx(3**-0.5, rel=0.15)


def test_r3gans_latents_are_followed_by_the_class():
    G, z = R3GANGenerator(3, (1, 16, 16), width=2, classes=3), torch.randn(5, 3)
    seen = []
    G.linear.register_forward_hook(lambda module, inputs, out: seen.append(inputs[0]))
    G(z, LABELS)
    assert torch.equal(seen[0], torch.cat([z, G.condition.embedding.weight[LABELS]], 1))


@pytest.mark.parametrize(
    "generator",
    [MLPGenerator(3, (2,), width=5, classes=3), DCGANGenerator(3, (1, 16, 16), width=2, batch_norm=False, classes=3)],
)
def test_an_embedding_follows_the_latents(generator):
    z = torch.randn(5, 3)
    by_hand = torch.cat([z, generator.condition.embedding.weight[LABELS]], 1)
    assert torch.equal(generator(z, LABELS), generator.layers(by_hand))
