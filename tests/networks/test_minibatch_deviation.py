"""The minibatch standard deviation against NumPy, in the networks that have it."""

import numpy as np
import pytest
import torch

from ganexp import build
from ganexp.networks import DCGANDiscriminator, MinibatchDeviation, MLPDiscriminator
from tests.composing import composed
from tests.small_runs import NARROW
from tests.tiny import iterate


def by_numpy(h, size):
    rows = []
    for i in range(len(h)):
        group = h[i // size * size : i // size * size + size]
        rows.append(np.sqrt(group.var(0) + 1e-8).mean())
    return np.array(rows)


@pytest.mark.parametrize(("batch", "group", "size"), [(8, 4, 4), (8, 2, 2), (6, 4, 6), (1, 4, 1)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (7,)])
def test_the_further_channel_is_numpys(batch, group, size, shape):
    h = torch.randn(batch, *shape, dtype=torch.float64)
    out = MinibatchDeviation(group=group)(h)
    assert out.shape == (batch, shape[0] + 1, *shape[1:])
    assert torch.equal(out[:, :-1], h)
    expected = by_numpy(h.numpy(), size)
    channel = out[:, -1:].flatten(1).numpy()
    np.testing.assert_allclose(channel, np.broadcast_to(expected[:, None], channel.shape), rtol=1e-12)


def test_layouts_and_narrow_types_agree():
    h, layer = torch.randn(8, 3, 4, 4), MinibatchDeviation()
    torch.testing.assert_close(layer(h.to(memory_format=torch.channels_last)), layer(h))
    torch.testing.assert_close(layer(h.bfloat16())[:, -1].float(), layer(h)[:, -1], rtol=1e-2, atol=0)
    same = torch.ones(4, 3, 2, 2, dtype=torch.bfloat16, requires_grad=True)
    assert torch.autograd.grad(layer(same).sum(), same)[0].isfinite().all()


def test_gradients_are_exact():
    h = torch.randn(4, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(MinibatchDeviation(group=2), h)
    assert torch.autograd.gradgradcheck(MinibatchDeviation(group=2), h)


def test_a_group_of_one_is_refused():
    with pytest.raises(ValueError, match=r"^group must be"):
        MinibatchDeviation(group=1)


@pytest.mark.parametrize(
    ("network", "shape"), [(DCGANDiscriminator, (1, 16, 16)), (MLPDiscriminator, (1, 16, 16)), (MLPDiscriminator, (2,))]
)
@pytest.mark.parametrize("classes", [0, 3])
def test_the_last_layer_of_a_discriminator_sees_it(network, shape, classes):
    """By one further weight per place: with those at 0, the scores are those of the discriminator without it."""
    torch.manual_seed(0)
    made, plain = (network(shape, width=4, classes=classes, minibatch_deviation=on).double() for on in (True, False))
    names = [name for name, _ in plain.named_parameters()]
    weights = dict(zip(names, (p.detach() for p in made.parameters()), strict=True))
    last = names[-2]
    features, x = weights[last].shape[1] - 1, torch.randn(8, *shape, dtype=torch.float64)
    conditions = (torch.arange(8) % classes,) if classes else ()
    weights[last] = weights[last][:, :features]
    plain.load_state_dict(weights)
    hidden = plain.layers[:-2](x).detach().numpy()
    seen = by_numpy(hidden, 4)
    further = [*made.parameters()][names.index(last)][:, features:].sum().item()
    expected = plain(x, *conditions).detach().numpy() + further * seen
    np.testing.assert_allclose(made(x, *conditions).detach().numpy(), expected, rtol=1e-10)


ON = "discriminator.minibatch_deviation=true"


@pytest.mark.parametrize(
    "overrides",
    [
        [*NARROW],
        pytest.param([*NARROW, "discriminator=mlp"], marks=pytest.mark.slow),
        pytest.param([*NARROW, "discriminator.spectral_norm=true", "conditional=true"], marks=pytest.mark.slow),
    ],
)
def test_it_trains_as_an_option(overrides):
    trainer = build(composed(*overrides, ON))
    iterate(trainer, 3)
    assert sum(isinstance(module, MinibatchDeviation) for module in trainer.gan.discriminator.modules()) == 1
    if "discriminator.spectral_norm=true" in overrides:
        assert torch.linalg.matrix_norm(trainer.gan.discriminator.layers[-2][1].weight.flatten(1), 2).item() < 1.5
