"""One backward pass through D gives the updates of joint, also where the published ratio does not exist."""

import pytest
import torch

from ganexp import GAN, Prior, strategies
from ganexp.losses import BEGAN, LSGAN, Hinge, NonSaturating
from ganexp.networks import (
    BEGANDiscriminator,
    BEGANGenerator,
    DCGANDiscriminator,
    DCGANGenerator,
    MLPDiscriminator,
    MLPGenerator,
)
from tests.tiny import CASES

SHAPE = (1, 16, 16)
NETWORKS = {
    "mlp": (lambda: MLPGenerator(3, SHAPE, width=8), lambda: MLPDiscriminator(SHAPE, width=8)),
    "dcgan": (lambda: DCGANGenerator(3, SHAPE, width=2), lambda: DCGANDiscriminator(SHAPE, width=2)),
    "began": (lambda: BEGANGenerator(3, SHAPE, width=2), lambda: BEGANDiscriminator(SHAPE, width=2, code_dim=4)),
}
FITTING = [(n, loss) for n in NETWORKS for loss in CASES if (n == "began") == (loss == "began")] + [("began", "softmaxgan")]


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
@pytest.mark.parametrize("steps", [(1, 1), (2, 1), (1, 2)])
def test_equals_joint_after_twenty_iterations(network, loss, steps):
    case, ends = CASES[loss], []
    for strategy in (strategies.joint, strategies.one_stage):
        made, reals = gan(network, BEGAN(lambda_k=0.3) if loss == "began" else case.loss(), case.penalty()), images()
        for _ in range(20):
            strategy(made, reals, d_steps=steps[0], g_steps=steps[1])
            made.finish_iteration()
        ends.append([*made.generator.parameters(), *made.discriminator.parameters(), *made.loss.buffers()])
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
    once = made.gradients_in_one_pass(x, _again(made, fake))
    for expected, found in zip(both, once, strict=True):
        scale = max(e.abs().max().item() for e in expected)
        for e, f in zip(expected, found, strict=True):
            torch.testing.assert_close(f, e, rtol=rtol, atol=rtol * max(scale, 1e-30))
    assert any(g.abs().max() > 0 for g in once[1]) or name.startswith("least squares")


def _again(made, fake):
    """Return the same fakes with a graph of their own, since the first one is spent."""
    z = made.prior
    z.generator = type(z)(3, dtype=fake.dtype).generator
    again = made.generate(made.sample())
    assert torch.equal(again, fake)
    return again


@pytest.mark.parametrize("loss", ["nonsaturating", "hinge", "lsgan", "softmaxgan"])
def test_batch_norm_is_refused_where_it_would_be_wrong(loss):
    made = gan("dcgan", CASES[loss].loss())
    made.discriminator = DCGANDiscriminator(SHAPE, width=2, batch_norm=True).double()
    with pytest.raises(ValueError, match=r"not exact for a discriminator with batch norm; take strategy=joint"):
        strategies.one_stage(made, images(), d_steps=1, g_steps=1)


@pytest.mark.parametrize("loss", ["minimax", "wgan"])
def test_batch_norm_is_exact_where_the_ratio_is_uniform(loss):
    ends = []
    for strategy in (strategies.joint, strategies.one_stage):
        torch.manual_seed(0)
        normalized = DCGANDiscriminator(SHAPE, width=2, batch_norm=True).double()
        made = gan("dcgan", CASES[loss].loss())
        made = GAN(
            made.generator,
            normalized,
            made.loss,
            made.optimizer_g,
            torch.optim.Adam(normalized.parameters(), lr=1e-3, eps=1e-4),
            made.prior,
            batch_size=4,
        )
        reals = images()
        for _ in range(20):
            strategy(made, reals, d_steps=1, g_steps=1)
        ends.append([*made.generator.parameters(), *normalized.parameters()])
    torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-10)


def test_scores_too_narrow_for_the_trick_are_refused():
    from ganexp.one_pass import by_scores

    with pytest.raises(ValueError, match="one_stage needs float32"):
        by_scores(Hinge(), torch.zeros(2, dtype=torch.float16), torch.zeros(2, dtype=torch.float16))
