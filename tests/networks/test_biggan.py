"""BigGAN: published sizes, a forward pass by hand, and where weights start."""

import pytest
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, batch_norm, conv2d, interpolate, linear, max_pool2d

from ganexp.facts import Misfit
from ganexp.networks import BigGANDiscriminator, BigGANGenerator
from tests.tiny import count_parameters


@pytest.mark.parametrize(
    ("side", "latent_dim", "width", "classes", "published"),
    [
        (32, 80, 96, 10, (9_416_196, 2_415_170)),
        pytest.param(64, 100, 80, 200, (17_335_204, 30_796_722), marks=pytest.mark.slow),
        pytest.param(128, 120, 96, 1000, (70_433_988, 87_982_370), marks=pytest.mark.slow),
    ],
)
def test_sizes_are_the_published_ones(side, latent_dim, width, classes, published):
    """Those that StudioGAN's logs say for CIFAR-10 and Tiny ImageNet, and that the first author's code counts for ImageNet."""
    with torch.device("meta"):
        generator = BigGANGenerator(latent_dim, (3, side, side), width=width, classes=classes)
        discriminator = BigGANDiscriminator((3, side, side), width=width, classes=classes)
    assert (count_parameters(generator), count_parameters(discriminator)) == published


def weights(network):
    """Return weights by name, divided by their largest singular values, which torch's own SVD tells."""
    made = {}
    for name, tensor in network.state_dict().items():
        if name.endswith("parametrizations.weight.original"):
            name = name.replace("parametrizations.weight.original", "weight")
            tensor = tensor / torch.linalg.svdvals(tensor.flatten(1))[0]
        made[name] = tensor
    return made


def scattered(network):
    """Return a network whose numbers are all arbitrary, with spectral norms that many power iterations have found."""
    network = network.double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return network


def settled(network, *inputs):
    """Let batch norm see data, and power iterations come to their end: each look at a weight is one."""
    with torch.no_grad():
        network(*inputs)
        for layer in network.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear, nn.Embedding)):
                for _ in range(300):
                    layer.weight  # noqa: B018
    return network.eval()


def conv(w, name, x):
    return conv2d(x, w[f"{name}.weight"], w.get(f"{name}.bias"), padding=w[f"{name}.weight"].shape[2] // 2)


def attended(w, name, x):
    b, height, width = len(x), *x.shape[2:]
    queries, keys, values = (conv(w, f"{name}.{one}", x) for one in ("queries", "keys", "values"))
    keys, values = max_pool2d(keys, 2), max_pool2d(values, 2)
    made = torch.zeros(b, values.shape[1], height, width, dtype=x.dtype)
    for i in range(height):
        for j in range(width):
            match = torch.einsum("bc,bckl->bkl", queries[:, :, i, j], keys).flatten(1).softmax(1)
            made[:, :, i, j] = torch.einsum("bn,bcn->bc", match, values.flatten(2))
    return x + w[f"{name}.gamma"] * conv(w, f"{name}.out", made)


def modulated(w, name, x, vector):
    mean, variance = (w[f"{name}.norm.running_{one}"][:, None, None] for one in ("mean", "var"))
    gain, bias = (linear(vector, w[f"{name}.{one}.weight"])[:, :, None, None] for one in ("gain", "bias"))
    return (1 + gain) * (x - mean) / (variance + 1e-5).sqrt() + bias


@pytest.mark.parametrize("classes", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_a_generators_forward_pass_by_hand(classes):
    torch.manual_seed(0)
    G = scattered(BigGANGenerator(9, (3, 32, 32), width=4, embedding=5, classes=classes))
    z, labels = torch.randn(4, 9, dtype=torch.float64), (torch.arange(4) % 3,) * bool(classes)
    w = weights(settled(G, z, *labels))
    parts = [z[:, :3], z[:, 3:5], z[:, 5:7], z[:, 7:]]
    if classes:
        parts[1:] = [torch.cat([w["shared.weight"][labels[0]], part], 1) for part in parts[1:]]
    h = linear(parts[0], w["linear.weight"], w["linear.bias"]).view(4, 16, 4, 4)
    for block, part in zip(("blocks.0", "blocks.1", "blocks.3"), parts[1:], strict=True):
        inner = conv(w, f"{block}.conv_1", interpolate(modulated(w, f"{block}.norm_1", h, part).relu(), scale_factor=2))
        inner = conv(w, f"{block}.conv_2", modulated(w, f"{block}.norm_2", inner, part).relu())
        h = inner + conv(w, f"{block}.shortcut", interpolate(h, scale_factor=2))
        if block == "blocks.1":
            h = attended(w, "blocks.2", h)
    h = batch_norm(h, w["norm.running_mean"], w["norm.running_var"], w["norm.weight"], w["norm.bias"])
    by_hand = conv(w, "image", h.relu()).tanh()
    torch.testing.assert_close(G(z, *labels), by_hand, rtol=1e-6, atol=1e-6)  # as near as power iterations come


@pytest.mark.parametrize("classes", [0, 3])
def test_a_discriminators_forward_pass_by_hand(classes):
    torch.manual_seed(0)
    D = scattered(BigGANDiscriminator((3, 32, 32), width=4, classes=classes))
    x, labels = torch.randn(4, 3, 32, 32, dtype=torch.float64), (torch.arange(4) % 3,) * bool(classes)
    w, h = weights(settled(D, x, *labels)), x
    for i, block in enumerate(("blocks.0", "blocks.2", "blocks.3", "blocks.4")):
        convolutions = [f"{block}.residual.{j}" for j in ((0, 2) if i == 0 else (1, 3))]
        inner = conv(w, convolutions[0], h if i == 0 else h.relu())
        inner = conv(w, convolutions[1], inner.relu())
        if i < 2:
            h = avg_pool2d(inner, 2) + avg_pool2d(conv(w, f"{block}.shortcut", h), 2)
        else:
            h = inner + h
        if i == 0:
            h = attended(w, "blocks.1", h)
    features = h.relu().sum((2, 3))
    by_hand = linear(features, w["linear.weight"], w["linear.bias"])[:, 0]
    if classes:
        by_hand = by_hand + (w["projection.embedding.weight"][labels[0]] * features).sum(1)
    torch.testing.assert_close(D(x, *labels), by_hand, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("side", [64, 128])
def test_other_sides(side):
    G, D = BigGANGenerator(12, (1, side, side), width=1), BigGANDiscriminator((1, side, side), width=1)
    assert D(G(torch.randn(2, 12))).shape == (2,)


def test_weights_begin_orthogonal():
    for network in (BigGANGenerator(8, (3, 32, 32), width=4, classes=3), BigGANDiscriminator((3, 32, 32), width=4, classes=3)):
        for name, tensor in network.state_dict().items():
            if name.endswith(("weight", "original")) and tensor.dim() > 1:
                values = torch.linalg.svdvals(tensor.flatten(1))
                torch.testing.assert_close(values, torch.ones_like(values), rtol=1e-4, atol=1e-4)


def test_latents_without_a_part_for_each_block_are_refused():
    with pytest.raises(Misfit) as error:
        BigGANGenerator(5, (3, 128, 128), width=1)
    assert error.value.remedy == {"latent_dim": 120}
    with pytest.raises(ValueError, match="shape should be one of 32×32, 64×64, 128×128"):
        BigGANDiscriminator((3, 48, 48))
