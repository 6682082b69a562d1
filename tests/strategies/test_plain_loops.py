"""Each strategy against a plain PyTorch loop of the same algorithm, written without any of the project's verbs."""

import pytest
import torch

from ganexp import strategies
from ganexp.optimizers import Muon, ScheduleFree, adamw
from ganexp.streams import stream
from tests.tiny import BATCH, CASES, KINDS, LATENT, STRATEGIES, UNHELD, derivative, real_batches, state, tiny_gan, train


class PlainLoop:
    """The state of a textbook loop: two networks, two optimisers, and the streams that the GAN under test draws from."""

    def __init__(self, loss):
        gan = tiny_gan(CASES[loss])
        self.name, self.loss = loss, gan.loss
        self.G, self.D, self.opt_g, self.opt_d = gan.generator, gan.discriminator, gan.optimizer_g, gan.optimizer_d
        self.latents, self.penalty_stream = stream(3, "latents"), stream(3, "gradient penalty")
        self.reals = real_batches()
        self.gan = gan

    def z(self):
        return torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=self.latents)

    def x(self):
        return next(self.reals)

    def x_for_g(self):
        return self.x() if self.loss.g_needs_real else None

    def loss_d(self, real, fake, x, images):
        self.r = real.mean().item()
        loss = self.loss.d_loss(real, fake)
        if self.name == "wgan_gp":
            share = torch.empty(BATCH, 1, dtype=torch.float64).uniform_(generator=self.penalty_stream)
            between = (share * x + (1 - share) * images.detach()).requires_grad_()
            (derivative,) = torch.autograd.grad(self.D(between).sum(), between, create_graph=True)
            loss = loss + 10 * ((derivative.norm(dim=1) - 1) ** 2).mean()
        return loss

    def loss_g(self, real, fake):
        self.f = fake.mean().item()
        return self.loss.g_loss(real, fake)

    def descend_d(self, loss, **kwargs):
        self.opt_d.zero_grad()
        loss.backward(**kwargs)
        self.step_d()

    def step_d(self):
        self.opt_d.step()
        if self.name == "wgan":
            for p in self.D.parameters():
                p.data.clamp_(-0.2, 0.2)

    def descend_g(self, loss):
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()

    def d_on_new_fakes(self):
        x, fake = self.x(), self.G(self.z())
        self.descend_d(self.loss_d(self.D(x), self.D(fake.detach()), x, fake))
        return x

    def g_on_new_fakes(self, x):
        real = self.D(x) if x is not None else None
        self.descend_g(self.loss_g(real, self.D(self.G(self.z()))))

    def end_iteration(self):
        if self.name == "began":
            k = self.loss.k_t.item() + 0.3 * (0.5 * self.r - self.f)
            self.loss.k_t.fill_(min(max(k, 0.0), 1.0))


def plain_resample(loop, d_steps, g_steps):
    for _ in range(d_steps):
        x = loop.d_on_new_fakes()
    loop.g_on_new_fakes(x)
    for _ in range(g_steps - 1):
        loop.g_on_new_fakes(loop.x_for_g())


def plain_detach(loop, d_steps, g_steps):
    for _ in range(d_steps):
        x, fake = loop.x(), loop.G(loop.z())
        loop.descend_d(loop.loss_d(loop.D(x), loop.D(fake.detach()), x, fake))
    loop.descend_g(loop.loss_g(loop.D(x), loop.D(fake)))
    for _ in range(g_steps - 1):
        loop.g_on_new_fakes(loop.x_for_g())


def plain_reuse_z(loop, d_steps, g_steps):
    for _ in range(d_steps):
        x, z = loop.x(), loop.z()
        fake = loop.G(z).detach()
        loop.descend_d(loop.loss_d(loop.D(x), loop.D(fake), x, fake))
    loop.descend_g(loop.loss_g(loop.D(x), loop.D(loop.G(z))))
    for _ in range(g_steps - 1):
        loop.g_on_new_fakes(loop.x_for_g())


def plain_retain_graph(loop, d_steps, g_steps):
    for _ in range(d_steps):
        x, fake = loop.x(), loop.G(loop.z())
        loop.descend_d(loop.loss_d(loop.D(x), loop.D(fake), x, fake), retain_graph=True)
    loop.descend_g(loop.loss_g(loop.D(x), loop.D(fake)))
    for _ in range(g_steps - 1):
        loop.g_on_new_fakes(loop.x_for_g())


def plain_g_first(loop, d_steps, g_steps):
    for _ in range(g_steps - 1):
        loop.g_on_new_fakes(loop.x_for_g())
    x, fake = loop.x(), loop.G(loop.z())
    loop.descend_g(loop.loss_g(loop.D(x), loop.D(fake)))
    loop.descend_d(loop.loss_d(loop.D(x), loop.D(fake.detach()), x, fake))
    for _ in range(d_steps - 1):
        loop.d_on_new_fakes()


def plain_g_first_resample(loop, d_steps, g_steps):
    for _ in range(g_steps - 1):
        loop.g_on_new_fakes(loop.x_for_g())
    x = loop.x()
    loop.g_on_new_fakes(x)
    fake = loop.G(loop.z()).detach()
    loop.descend_d(loop.loss_d(loop.D(x), loop.D(fake), x, fake))
    for _ in range(d_steps - 1):
        loop.d_on_new_fakes()


def plain_g_first_reuse_z(loop, d_steps, g_steps):
    for _ in range(g_steps - 1):
        loop.g_on_new_fakes(loop.x_for_g())
    x, z = loop.x(), loop.z()
    loop.descend_g(loop.loss_g(loop.D(x), loop.D(loop.G(z))))
    fake = loop.G(z).detach()
    loop.descend_d(loop.loss_d(loop.D(x), loop.D(fake), x, fake))
    for _ in range(d_steps - 1):
        loop.d_on_new_fakes()


def plain_joint(loop, d_steps, g_steps):
    for i in range(max(d_steps, g_steps)):
        if i < d_steps and i < g_steps:
            x, fake = loop.x(), loop.G(loop.z())
            real_scores, fake_scores = loop.D(x), loop.D(fake)
            loss_d, loss_g = loop.loss_d(real_scores, fake_scores, x, fake), loop.loss_g(real_scores, fake_scores)
            loop.opt_d.zero_grad()
            loss_d.backward(retain_graph=True)
            kept = [p.grad.clone() for p in loop.D.parameters()]
            loop.opt_g.zero_grad()
            loss_g.backward()
            for p, gradient in zip(loop.D.parameters(), kept, strict=True):
                p.grad = gradient
            loop.step_d()
            loop.opt_g.step()
        elif i < d_steps:
            loop.d_on_new_fakes()
        else:
            loop.g_on_new_fakes(loop.x_for_g())


def plain_extragradient(loop, d_steps, g_steps):
    parameters = [*loop.G.parameters(), *loop.D.parameters()]
    for _ in range(min(d_steps, g_steps)):
        here = [p.data.clone() for p in parameters]
        plain_joint(loop, 1, 1)
        x, fake = loop.x(), loop.G(loop.z())
        real_scores, fake_scores = loop.D(x), loop.D(fake)
        loss_d, loss_g = loop.loss_d(real_scores, fake_scores, x, fake), loop.loss_g(real_scores, fake_scores)
        there_d = torch.autograd.grad(loss_d, list(loop.D.parameters()), retain_graph=True)
        there_g = torch.autograd.grad(loss_g, list(loop.G.parameters()))
        for p, old, gradient in zip(parameters, here, [*there_g, *there_d], strict=True):
            p.data.copy_(old)
            p.grad = gradient
        loop.step_d()
        loop.opt_g.step()
    for _ in range(d_steps - g_steps):
        loop.d_on_new_fakes()
    for _ in range(g_steps - d_steps):
        loop.g_on_new_fakes(loop.x_for_g())


PLAIN = {name.removeprefix("plain_"): f for name, f in list(globals().items()) if name.startswith("plain_")}
PLAIN["one_stage"] = plain_joint


@pytest.mark.parametrize("steps", [(1, 1), (3, 2), (2, 3)])
@pytest.mark.parametrize("loss", [*KINDS, "wgan"])
@pytest.mark.parametrize("strategy", sorted(PLAIN))
def test_strategy_equals_plain_loop(strategy, loss, steps):
    d_steps, g_steps = steps
    gan, reals = tiny_gan(CASES[loss]), real_batches()
    loop = PlainLoop(loss)
    for _ in range(5):
        STRATEGIES[strategy](gan, reals, d_steps=d_steps, g_steps=g_steps)
        gan.finish_iteration()
        PLAIN[strategy](loop, d_steps, g_steps)
        loop.end_iteration()
    torch.testing.assert_close(state(gan), state(loop.gan), rtol=1e-11, atol=1e-10 if loss in UNHELD else 1e-12)


@pytest.mark.parametrize("make", [adamw, Muon, ScheduleFree])
@pytest.mark.parametrize("strategy", sorted(PLAIN))
def test_loops_with_other_optimizers_are_the_strategies_too(strategy, make):
    loop, gan, reals = PlainLoop("nonsaturating"), tiny_gan(CASES["nonsaturating"]), real_batches()
    for one in (gan, loop.gan):
        for moved, network in ((one._g, one.generator), (one._d, one.discriminator)):
            moved.optimizer = make(network.parameters(), lr=0.02, weight_decay=0.1, eps=1e-3)
    loop.opt_g, loop.opt_d = loop.gan.optimizer_g, loop.gan.optimizer_d
    for _ in range(5):
        STRATEGIES[strategy](gan, reals, d_steps=2, g_steps=2)
        PLAIN[strategy](loop, 2, 2)
    torch.testing.assert_close(state(gan), state(loop.gan), rtol=1e-8, atol=1e-9)


def with_spectral_norm(network):
    for layer in [module for module in network.modules() if isinstance(module, torch.nn.Linear)]:
        torch.nn.utils.parametrizations.spectral_norm(layer)
    return network


@pytest.mark.parametrize("wrap", [lambda discriminator: discriminator, with_spectral_norm], ids=["plain", "spectral norm"])
@pytest.mark.parametrize("loss", ["nonsaturating", "lsgan", "softmaxgan", "ragan", "rpgan", "began"])
def test_unrolled_gradient_equals_finite_differences_through_plain_steps(loss, wrap):
    """Differentiate numerically through k plain steps of D, which know nothing of functional calls."""
    gan, k, rate = tiny_gan(CASES[loss], wrap=wrap), 3, 0.05
    x, z = next(real_batches()), gan.sample()

    def g_loss_after_plain_steps():
        tensors = [*gan.discriminator.parameters(), *gan.discriminator.buffers()]
        before = [tensor.data.clone() for tensor in tensors]
        fake = gan.generator(z.values).detach()
        for _ in range(k):
            objective = gan.loss.d_loss(gan.discriminator(x), gan.discriminator(fake))
            gradients = torch.autograd.grad(objective, list(gan.discriminator.parameters()))
            for p, gradient in zip(gan.discriminator.parameters(), gradients, strict=True):
                p.data.sub_(rate * gradient)
        real_scores = gan.discriminator(x) if gan.loss.g_needs_real else None  # each pass is a power iteration
        value = gan.loss.g_loss(real_scores, gan.discriminator(fake)).item()
        for tensor, old in zip(tensors, before, strict=True):
            tensor.data.copy_(old)
        return value

    value = strategies.Unrolled(k=k, rate=rate).g_loss(gan, x, gan.generate(z)).value
    assert value.item() == pytest.approx(g_loss_after_plain_steps(), rel=1e-12)
    weights = list(gan.generator.parameters())
    directions = [torch.randn_like(p) for p in weights]
    known = sum((g * d).sum() for g, d in zip(torch.autograd.grad(value, weights), directions, strict=True)).item()
    assert known == pytest.approx(derivative(g_loss_after_plain_steps, weights, directions), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("loss", KINDS)
def test_unrolled_by_no_step_is_joint(loss):
    ends = [train(tiny_gan(CASES[loss]), strategy) for strategy in (strategies.joint, strategies.Unrolled(k=0))]
    torch.testing.assert_close(*ends, rtol=1e-12, atol=1e-13)
