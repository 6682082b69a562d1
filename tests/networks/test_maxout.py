"""Maxout, and PacGAN's networks of ring and grid, against a forward pass written by hand."""

import numpy as np
import pytest
import torch

from ganexp import build
from ganexp.networks import MaxoutDiscriminator, MLPGenerator
from tests.composing import composed


def test_the_discriminator_is_the_one_written_by_hand():
    torch.manual_seed(0)
    discriminator = MaxoutDiscriminator((4,), width=3, depth=2, pieces=5).double()
    x = torch.randn(7, 4, dtype=torch.float64)
    weights = [parameter.detach().numpy() for parameter in discriminator.parameters()]
    h = x.numpy()
    for weight, bias in ((weights[0], weights[1] + 0.1), (weights[2], weights[3] - 0.2)):
        affine = h @ weight.T + bias
        h = np.stack([affine[:, unit::3].max(1) for unit in range(3)], 1)
    expected = h @ weights[4][0] + weights[5] + 0.3
    with torch.no_grad():
        for layer, shift in zip(
            [parameter for parameter in discriminator.parameters() if parameter.dim() == 1], (0.1, -0.2, 0.3), strict=True
        ):
            layer += shift
        np.testing.assert_allclose(discriminator(x).numpy(), expected, rtol=1e-12)


def test_the_generator_with_batch_norm_is_the_one_written_by_hand():
    torch.manual_seed(0)
    generator = MLPGenerator(2, (2,), width=6, depth=2, batch_norm=True, std=0.02).double()
    z = torch.randn(9, 2, dtype=torch.float64)
    h = z.numpy()
    linear = [module for module in generator.modules() if isinstance(module, torch.nn.Linear)]
    assert [layer.bias is None for layer in linear] == [True, True, False]
    for layer in linear[:-1]:
        affine = h @ layer.weight.detach().numpy().T
        h = np.maximum((affine - affine.mean(0)) / np.sqrt(affine.var(0) + 1e-5), 0)
    expected = h @ linear[-1].weight.detach().numpy().T
    np.testing.assert_allclose(generator(z).detach().numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("data", "pack"), [("ring", 1), ("grid", 2)])
def test_pacgans_experiments_have_its_networks_its_start_and_a_hundred_packs(data, pack):
    cfg = composed(
        f"experiment=pacgan_{data}", f"pack={pack}", "logger=[]", "evaluate_every=0", "iterations=2", "sample_every=0"
    )
    gan = build(cfg).gan
    assert gan.batch_size == 100 * pack
    count = {
        name: sum(p.numel() for p in network.parameters()) for name, network in (("g", gan.generator), ("d", gan.discriminator))
    }
    assert count["g"] == 2 * 400 + 3 * 400 * 400 + 4 * 2 * 400 + 2 * 400 + 2
    assert count["d"] == 5 * 200 * (2 * pack + 1) + 2 * 5 * 200 * 201 + 201
    first = next(p for p in gan.discriminator.parameters() if p.shape == (1000, 200))
    assert float(first.detach().std()) == pytest.approx(0.02, rel=0.02)
    assert [group["betas"] for one in (gan.optimizer_g, gan.optimizer_d) for group in one.param_groups] == [(0.2, 0.999)] * 2
