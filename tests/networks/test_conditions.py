"""How networks read class labels, against what the papers write."""

import pytest
import torch
from torch import nn

from ganexp.networks import DCGANDiscriminator, DCGANGenerator, MLPDiscriminator, MLPGenerator
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


@pytest.mark.parametrize(
    "generator",
    [
        MLPGenerator(3, (2,), width=5, classes=3),
        DCGANGenerator(3, (1, 16, 16), width=2, batch_norm=False, classes=3),
    ],
)
def test_an_embedding_follows_the_latents(generator):
    z = torch.randn(5, 3)
    by_hand = torch.cat([z, generator.condition.embedding.weight[LABELS]], 1)
    assert torch.equal(generator(z, LABELS), generator.layers(by_hand))


@pytest.mark.parametrize("network", [MLPGenerator, DCGANGenerator])
def test_without_classes_a_network_has_the_weights_that_it_always_had(network):
    torch.manual_seed(0)
    plain = network(3, (1, 16, 16), width=2)
    assert not any("condition" in name or "gain" in name or "embedding" in name for name in plain.state_dict())
    assert plain(torch.randn(4, 3)).shape == (4, 1, 16, 16)
