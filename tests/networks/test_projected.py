"""A discriminator on frozen features, against a pass that is written out by hand with torchvision's own network."""

import copy
import math
import os

import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, interpolate, leaky_relu
from torchvision import models

import ganexp
from ganexp import build
from ganexp.config.check import check
from ganexp.documents import read_state, weights_among
from ganexp.facts import Misfit, UserError
from ganexp.networks import ProjectedDiscriminator
from ganexp.networks.projected import frozen_stages
from ganexp.sampling import save
from tests.composing import composed
from tests.small_runs import assert_same, state
from tests.tiny import iterate

NETWORKS = ("efficientnet_b0", "resnet18", "resnet50")
ENDS = {
    "efficientnet_b0": ["features.2", "features.3", "features.5", "features.7"],
    "resnet18": [f"layer{i}" for i in range(1, 5)],
    "resnet50": [f"layer{i}" for i in range(1, 5)],
}


@pytest.fixture
def weights(tmp_path):
    """Return a function that writes random weights of a network of torchvision as torchvision does, and the network."""

    def write(name):
        torch.manual_seed(1)
        network = getattr(models, name)(weights=None).eval()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.running_mean, -0.1, 0.1)
                nn.init.uniform_(module.running_var, 0.5, 2)
                nn.init.uniform_(module.weight, 0.5, 2)
        torch.save(network.state_dict(), tmp_path / f"{name}.pth")
        return str(tmp_path / f"{name}.pth"), network

    return write


@pytest.mark.parametrize("name", NETWORKS)
def test_it_is_a_pass_by_hand(weights, name):
    path, network = weights(name)
    torch.manual_seed(0)
    D, network = (
        ProjectedDiscriminator((1, 48, 64), network=name, weights=path, size=0, width=2).double().eval(),
        network.double(),
    )
    x, ends = torch.rand(2, 1, 48, 64, dtype=torch.float64, requires_grad=True), {}
    for end in ENDS[name]:
        network.get_submodule(end).register_forward_hook(lambda module, inputs, out, end=end: ends.update({end: out}))
    colour = torch.cat([x, x, x], 1)
    mean, std = (torch.tensor(one).view(3, 1, 1).double() for one in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    network(((colour + 1) / 2 - mean) / std)
    assert [one.shape[2:] for one in ends.values()] == [(12, 16), (6, 8), (3, 4), (2, 2)]
    logits, coarser = [], None
    for i in (3, 2, 1, 0):
        mixed = conv2d(ends[ENDS[name][i]], D.across_channels[i].weight, D.across_channels[i].bias)
        assert mixed.shape[1] == 2 * 2**i
        if coarser is not None:
            mixed = torch.cat([mixed, interpolate(coarser, mixed.shape[2:], mode="bilinear")], 1)
        coarser = h = conv2d(mixed, D.across_scales[i].weight, D.across_scales[i].bias, padding=1)
        *halving, last = [layer for layer in D.scales[i] if isinstance(layer, nn.Conv2d)]
        assert len(halving) == (i == 0)
        for layer in halving:
            h = leaky_relu(conv2d(h, layer.weight, layer.bias, stride=2, padding=1), 0.2)
        logits.insert(0, conv2d(h, last.weight, last.bias).flatten(2))
    assert D.heads == tuple(one.shape[2] for one in logits)
    torch.testing.assert_close(D(x), torch.cat(logits, 2), rtol=1e-8, atol=1e-10)
    assert torch.autograd.grad(D(x).sum(), x)[0].abs().min() > 0


def test_heads_of_images_of_224_pixels_have_four_by_four_places_at_every_scale():
    """Sauer et al. 2021, section 3.2."""
    with torch.device("meta"):
        D = ProjectedDiscriminator((3, 256, 256))
        assert D(torch.zeros(2, 3, 256, 256)).shape == (2, 1, 64)
    assert D.heads == (16, 16, 16, 16)
    assert [sum(isinstance(layer, nn.LeakyReLU) for layer in one) for one in D.scales] == [3, 2, 1, 0]
    assert [one.weight.shape[:2] for one in D.across_channels] == [(64, 24), (128, 40), (256, 112), (512, 320)]


def test_heads_alone_are_trained_and_the_network_behind_the_features_is_not_stored(weights):
    path, _ = weights("resnet18")
    D = ProjectedDiscriminator((3, 32, 32), network="resnet18", weights=path, size=0, width=2)
    frozen = [name for name, one in D.named_parameters() if not one.requires_grad]
    assert {name.partition(".")[0] for name in frozen} == {"stages", "across_channels", "across_scales"}
    assert all(name.startswith("scales.") for name, one in D.named_parameters() if one.requires_grad)
    assert not [name for name in D.state_dict() if name.startswith("stages")]
    other = ProjectedDiscriminator((3, 32, 32), network="resnet18", weights=path, size=0, width=2)
    other.load_state_dict(D.state_dict())
    x = torch.rand(2, 3, 32, 32)
    assert torch.equal(other.eval()(x), D.eval()(x))
    copied = copy.deepcopy(D)
    assert torch.equal(copied(x), D(x))
    with pytest.raises(RuntimeError, match=r"scales\.0"):
        D.load_state_dict({key: value for key, value in D.state_dict().items() if "scales.0" not in key})
    assert not any(module.training for module in D.train().stages.modules())
    assert D.scales.training
    random = [ProjectedDiscriminator((3, 32, 32), network="resnet18", size=0, width=2).stages.state_dict() for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*(one.values() for one in random), strict=True))


@pytest.mark.parametrize(
    "typed",
    [
        "strategy=detach",
        "strategy=joint loss=hinge penalty=[r1] discriminator.network=efficientnet_b0",
        "strategy=consensus",
        "strategy=one_stage loss=minimax augment=diffaugment precision=bf16",
    ],
)
@pytest.mark.slow
def test_it_trains_and_resumes(weights, typed):
    path, _ = weights("resnet18")
    named = [] if "network" in typed else ["discriminator.network=resnet18", f"discriminator.weights={path}"]
    words = ["discriminator=projected", "discriminator.size=0", "discriminator.width=1", "generator.width=1", *named]
    words += ["dataset=fake", "dataset.n=9", "batch_size=2", "latent_dim=3", "logger=[]", "device=cpu", *typed.split()]

    def trained(iterations, stored=None):
        trainer = build(composed(*words))
        if stored is not None:
            trainer.load_state_dict(stored)
        iterate(trainer, iterations)
        return trainer

    half, begun, whole = trained(1).state_dict(), trained(0), trained(2)
    assert_same(state(trained(1, half)), state(whole))
    before, after = (dict(one.gan.discriminator.named_parameters()) for one in (begun, whole))
    moved = {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"scales"}
    assert all(one.grad is None for name, one in after.items() if not name.startswith("scales"))


def test_what_does_not_fit_is_refused(weights, tmp_path):
    path, _ = weights("resnet18")
    with pytest.raises(Misfit) as error:
        ProjectedDiscriminator((3, 16, 16), size=0)
    assert error.value.remedy == {"size": 224}
    with pytest.raises(ValueError, match="channels"):
        ProjectedDiscriminator((4, 32, 32))
    (tmp_path / "broken.pth").write_bytes(b"no weights")
    os.mkfifo(tmp_path / "pipe.pth")
    for wrong in (path, *(str(tmp_path / f"{name}.pth") for name in ("nowhere", "broken", "pipe"))):
        with pytest.raises(UserError, match=r"discriminator=projected: weights="):
            check(composed("discriminator=projected", f"discriminator.weights={wrong}", "logger=[]"))


class Harmful:
    def __reduce__(self):
        return (pytest.fail, ("a file was executed",))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda weight: weight.to_sparse(),
        lambda weight: weight.to("meta"),
        lambda weight: weight * math.nan,
        lambda weight: weight[:1],
        lambda weight: weight + 0j,
        lambda weight: torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8),
        lambda weight: torch.nested.nested_tensor([*weight]),
        lambda weight: [1.0],
        lambda weight: None,
        lambda weight: Harmful(),
    ],
    ids=["sparse", "meta", "nan", "other shape", "complex", "quantized", "nested", "list", "none", "pickle"],
)
@pytest.mark.filterwarnings("ignore")  # of torch, for kinds of tensors that it means to drop
def test_weights_are_tensors_of_finite_numbers_in_a_plain_layout(tmp_path, wrong):
    like = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    torch.save(like | {"weight": like["weight"].half()}, tmp_path / "file")
    assert torch.equal(weights_among(read_state(tmp_path / "file"), like)["weight"], like["weight"])
    torch.save(like | {"weight": wrong(like["weight"])}, tmp_path / "file")
    with pytest.raises(ValueError, match=r"\w") as refused:
        weights_among(read_state(tmp_path / "file"), like)
    assert "weights_only" not in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_random_features_leave_the_streams_of_gpus_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail(f"seeded by {seed}"))
    before = torch.get_rng_state()
    frozen_stages("resnet18", None)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.slow
def test_a_discriminator_that_needs_a_file_is_not_given_away(weights, tmp_path):
    words = ["discriminator=projected", f"discriminator.weights={weights('resnet18')[0]}", "discriminator.network=resnet18"]
    words += ["dataset=fake", "dataset.image_size=32", "generator=mlp", "iterations=1", "logger=[]", "device=cpu"]
    build(composed(*words, "batch_size=2", "discriminator.size=0"), tmp_path / "run").fit()
    generator, discriminator = ganexp.load(tmp_path / "run"), ganexp.load_discriminator(tmp_path / "run")
    with pytest.raises(UserError, match="weights in a file"):
        save(generator, tmp_path / "with", discriminator=discriminator)
    save(generator, tmp_path / "alone")
    assert ".pth" not in (tmp_path / "alone" / "generator.json").read_text()
