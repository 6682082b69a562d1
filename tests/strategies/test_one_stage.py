"""One backward pass through D gives the updates of joint, also where the published ratio does not exist."""

import pytest
import torch
from torch import nn

from ganexp import GAN, Prior, strategies
from ganexp.losses import BEGAN, LSGAN, WGAN, Hinge, Minimax, NonSaturating
from ganexp.networks import (
    BEGANDiscriminator,
    BEGANGenerator,
    DCGANDiscriminator,
    DCGANGenerator,
    MLPDiscriminator,
    MLPGenerator,
)
from ganexp.strategies.one_stage import gradients_in_one_pass, seeds_and_scales
from tests.tiny import CASES, train

SHAPE = (1, 16, 16)
NETWORKS = {
    "mlp": (lambda: MLPGenerator(3, SHAPE, width=8), lambda: MLPDiscriminator(SHAPE, width=8)),
    "dcgan": (lambda: DCGANGenerator(3, SHAPE, width=2), lambda: DCGANDiscriminator(SHAPE, width=2)),
    "began": (lambda: BEGANGenerator(3, SHAPE, width=2), lambda: BEGANDiscriminator(SHAPE, width=2, code_dim=4)),
}
FITTING = [
    *(("mlp", loss) for loss in CASES if loss not in ("began", "ebgan")),
    *(("dcgan", loss) for loss in ("hinge", "wgan_gp", "softmaxgan")),
    *(("began", loss) for loss in ("began", "ebgan", "softmaxgan")),
]


def gan(network, loss, penalty=None, dtype=torch.float64):
    torch.manual_seed(0)
    generator, discriminator = (make().to(dtype) for make in NETWORKS[network])
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9), eps=1e-4)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.9), eps=1e-4)
    return GAN(
        generator, discriminator, loss.to(dtype), optimizer_g, optimizer_d, Prior(3, dtype=dtype), batch_size=4, penalty=penalty
    )


def images(dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    while True:
        yield (torch.rand(4, *SHAPE, generator=generator, dtype=torch.float64) * 2 - 1).to(dtype)


@pytest.mark.parametrize(("network", "loss"), FITTING)
def test_equals_joint_after_eight_iterations(network, loss):
    case, ends = CASES[loss], []
    for strategy in (strategies.joint, strategies.OneStage()):
        made = gan(network, BEGAN(lambda_k=0.3) if loss == "began" else case.loss(), case.penalty())
        ends.append(train(made, strategy, 8, reals=images(), d_steps=2))
    torch.testing.assert_close(*ends, rtol=1e-10, atol=1e-10)


def shifted(discriminator, by):
    """Move all scores of an MLP discriminator by a constant."""
    with torch.no_grad():
        discriminator.layers[-2].bias.add_(by)


SINGULAR = {
    # name: (network, loss, what to do to the GAN so that ∂L_D/∂s vanishes for some or all fakes)
    "hinge with every fake saturated": ("mlp", Hinge, lambda g: shifted(g.discriminator, -5.0)),
    "hinge with some fakes saturated": ("mlp", Hinge, lambda g: shifted(g.discriminator, -1.0)),
    "least squares at s = 0": ("mlp", LSGAN, lambda g: [p.data.zero_() for p in g.discriminator.layers[-2].parameters()]),
    "BEGAN at k = 0": ("began", BEGAN, lambda g: None),
    "logits so low that the derivative underflows": ("mlp", NonSaturating, lambda g: shifted(g.discriminator, -60.0)),
}


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
@pytest.mark.parametrize("name", SINGULAR)
def test_gradients_where_the_ratio_does_not_exist(name, dtype, rtol):
    network, make_loss, spoil = SINGULAR[name]
    made = gan(network, make_loss(), dtype=dtype)
    spoil(made)
    x, fake = next(images(dtype)), made.generate(made.sample())
    both = made.gradients(*made.losses(x, fake))
    fake = _again(made, fake)
    once = gradients_in_one_pass(made, fake, *made.losses(x, fake))
    for expected, found in zip(both, once, strict=True):
        scale = max(e.abs().max().item() for e in expected)
        torch.testing.assert_close(found, expected, rtol=rtol, atol=rtol * max(scale, 1e-30))
    assert any(g.abs().max() > 0 for g in once[1]) or name.startswith("least squares")


def _again(made, fake):
    """Return the same fakes with a graph of their own, since the first one is spent."""
    made.prior.reseed(0)
    again = made.generate(made.sample())
    assert torch.equal(again.values, fake.values)
    return again


class Coupled(nn.Module):
    """An MLP discriminator whose images see each other in some way before they are scored."""

    def __init__(self, couple):
        super().__init__()
        self.see = couple
        self.before, self.after = nn.Linear(256, 6), nn.Linear(6, 1)

    def forward(self, x):
        return self.after(self.see(self.before(x.flatten(1))).tanh()).flatten()


def minibatch_deviation(h):
    return h + h.std(0, unbiased=False).mean()


def centring(h):
    return h - h.mean(0)


def attention(h):
    return (h @ h.t() / 8).softmax(1) @ h


def last_image_only(h):
    return torch.cat([h[:-1], h[-1:] + h[:1]])


class HandWrittenNorm(nn.Module):
    """Batch norm that no list of torch's classes knows, with running statistics that a trial must leave alone."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, h):
        self.seen = self.seen + 1  # rebound, not written in place
        return (h - h.mean(0)) / h.std(0)


COUPLINGS = {
    "minibatch standard deviation": lambda: minibatch_deviation,
    "centring": lambda: centring,
    "attention across images": lambda: attention,
    "one image that sees another": lambda: last_image_only,
    "a hand-written norm": HandWrittenNorm,
    "batch norm": lambda: nn.BatchNorm1d(6),
}


def gan_with(discriminator, loss):
    torch.manual_seed(0)
    generator = MLPGenerator(3, SHAPE, width=8).double()
    optimizers = (torch.optim.Adam(n.parameters(), eps=1e-4) for n in (generator, discriminator))
    return GAN(generator, discriminator, loss.double(), *optimizers, Prior(3, dtype=torch.float64), batch_size=4)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_images_that_see_each_other_are_refused_and_the_trial_leaves_no_trace(coupling):
    discriminator = Coupled(COUPLINGS[coupling]()).double()
    made = gan_with(discriminator, NonSaturating())
    before = {name: b.clone() for name, b in discriminator.named_buffers()}, torch.get_rng_state()
    with pytest.raises(ValueError, match=r"exact only for a discriminator that scores each image by itself.*strategy=joint"):
        strategies.OneStage()(made, images(), d_steps=1, g_steps=1)
    assert torch.equal(torch.get_rng_state(), before[1])
    assert all(torch.equal(b, before[0][name]) for name, b in discriminator.named_buffers())


def couplings_that_are_none():
    frozen = nn.BatchNorm1d(6)
    frozen.running_mean.normal_()
    return {"frozen batch norm": frozen.eval(), "layer norm": nn.LayerNorm(6), "dropout": nn.Dropout(0.5)}


@pytest.mark.parametrize("name", couplings_that_are_none())
def test_what_acts_on_each_image_alone_is_allowed_and_exact(name):
    ends = []
    for strategy in (strategies.joint, strategies.OneStage()):
        torch.manual_seed(1)
        made = gan_with(Coupled(couplings_that_are_none()[name]).double(), NonSaturating())
        ends.append(train(made, strategy, 10, reals=images()))
    torch.testing.assert_close(*ends, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("loss", [Minimax, WGAN])
def test_any_coupling_is_exact_where_the_ratio_is_uniform(loss, coupling):
    ends = []
    for strategy in (strategies.joint, strategies.OneStage()):
        torch.manual_seed(1)
        ends.append(train(gan_with(Coupled(COUPLINGS[coupling]()).double(), loss()), strategy, 5, reals=images()))
    torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-10)


def by_scores(loss, real, fake):
    """Return ∂L_D/∂s of the fakes, and what the pass is seeded with and rescaled by."""
    fake = fake.requires_grad_()
    (d_by_fake,) = torch.autograd.grad(loss.d_loss(real, fake), fake)
    (g_by_fake,) = torch.autograd.grad(loss.g_loss(real, fake), fake)
    return d_by_fake, *seeds_and_scales(loss, d_by_fake, g_by_fake)


@pytest.mark.parametrize("low", [-30.0, -60.0, -120.0, -800.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_hopeless_fake_does_not_spoil_the_ratio_of_the_others(low, dtype):
    fake = torch.tensor([0.3, low, -1.0, 2.0], dtype=dtype)
    d_by_fake, seeds, scales = by_scores(Minimax(), torch.randn(4, dtype=dtype), fake)
    assert torch.equal(scales, -torch.ones(4, dtype=dtype))
    assert torch.equal(seeds, d_by_fake)


@pytest.mark.parametrize("k", [0.0, 1e-42, 1e-24, 1e-3, 1.0])
def test_a_uniform_ratio_stays_uniform_where_it_nearly_does_not_exist(k):
    _, seeds, scales = by_scores(BEGAN(k_0=k), torch.rand(5), torch.rand(5))
    assert len(set(seeds.tolist())) == len(set(scales.tolist())) == 1
    torch.testing.assert_close((seeds * scales).double(), torch.full((5,), 0.2).double(), rtol=1e-6, atol=0)


def test_scores_too_narrow_for_the_trick_are_refused():
    with pytest.raises(ValueError, match="one_stage needs float32"):
        seeds_and_scales(Hinge(), torch.zeros(2, dtype=torch.float16), torch.zeros(2, dtype=torch.float16))
