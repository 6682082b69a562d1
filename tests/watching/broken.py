"""Broken loops, each with the kind of its fault."""

import torch
from torch import nn

from tests.watching.loops import LATENT, B, bce, d_loss, g_loss, setting

BROKEN = {}
"""Loops by name, with the kinds of their faults, and whether torch refuses them."""


def broken(*kinds, raises=False):
    def add(make):
        BROKEN[make.__name__] = (make, kinds, raises)
        return make

    return add


def alternating(p, *, fake_d=lambda f: f.detach(), fake_g=lambda f: f, zero_d=True, zero_g=True, z=None, x=None, sign=1):
    """Return the usual loop, with one thing changed."""

    def step():
        fake = p.G((z or p.z)())
        if zero_d:
            p.od.zero_grad()
        d_loss(p.D((x or p.x)()), p.D(fake_d(fake))).backward()
        p.od.step()
        if zero_g:
            p.og.zero_grad()
        (sign * g_loss(p.D(fake_g(fake)))).backward()
        p.og.step()

    return p, step


@broken("other_loss", "stale")
def d_is_not_cleared():
    return alternating(setting(), zero_d=False)


@broken("other_loss", "stale")
def g_is_not_cleared_and_d_not_detached():
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake)).backward(retain_graph=True)
        p.od.step()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("stale")
def own_gradients_are_not_cleared():
    return alternating(setting(), zero_g=False)


@broken("accumulated")
def softmaxgan_in_black():
    p = setting()

    def step():
        p.od.zero_grad(), p.og.zero_grad()
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        d_loss(real, fake).backward(retain_graph=True)
        g_loss(fake).backward()
        p.od.step(), p.og.step()

    return p, step


@broken("same_loss")
def one_loss_for_both():
    p = setting()

    def step():
        p.od.zero_grad(), p.og.zero_grad()
        d_loss(p.D(p.x()), p.D(p.G(p.z()))).backward()
        p.od.step(), p.og.step()

    return p, step


@broken("detached_scores")
def g_learns_from_detached_fakes():
    return alternating(setting(torch.optim.SGD), fake_g=lambda f: f.detach())


@broken("no_grad")
def fakes_under_no_grad():
    p = setting()

    def step():
        with torch.no_grad():
            fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake)).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("same_latents")
def the_same_latents():
    p = setting()
    z = p.z()
    return alternating(p, z=lambda: z)


@broken("same_latents")
def the_same_seed():
    p = setting()
    return alternating(p, z=lambda: torch.randn(B, LATENT, generator=torch.Generator().manual_seed(1)))


@broken("freed", raises=True)
def no_detach():
    return alternating(setting(), fake_d=lambda f: f)


@broken("in_place", raises=True)
def kept_scores():
    p = setting()

    def step():
        p.od.zero_grad()
        fake = p.D(p.G(p.z()))
        d_loss(p.D(p.x()), fake).backward(retain_graph=True)
        p.od.step()
        p.og.zero_grad()
        g_loss(fake).backward()
        p.og.step()

    return p, step


@broken("eval")
def d_in_eval_mode():
    p = setting(more=(nn.Dropout(0.5),))
    p.D.eval()
    return alternating(p)


@broken("frozen", "no_gradient")
def d_stays_frozen():
    """They are switched off for G's step, and never on again."""
    p = setting(torch.optim.SGD)

    def step():
        fake = p.G(p.z())
        p.og.zero_grad()
        p.D.requires_grad_(False)
        g_loss(p.D(fake)).backward()
        p.og.step()
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(p.G(p.z()))).backward()
        p.od.step()

    return p, step


@broken("frozen", raises=True)
def d_stays_frozen_and_fakes_are_detached():
    p = setting()
    p.D.requires_grad_(False)
    return alternating(p)


@broken("mixed_batch_norm")
def real_and_fake_in_one_batch():
    p = setting(more=(nn.BatchNorm1d(16),))

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        scores = p.D(torch.cat((p.x(), fake.detach())))
        bce(scores, torch.cat((torch.ones(B, 1), torch.zeros(B, 1)))).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("mixtures")
def three_mixtures():
    """D's step has real samples and fakes apart, and G's step has them in one batch, as with a loss on pairs."""
    p = setting(more=(nn.BatchNorm1d(16),))

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        real, score = p.D(torch.cat((p.x(), fake))).split(B)  # the third mixture
        g_loss(score - real.mean()).backward()
        p.og.step()

    return p, step


@broken("mixtures")
def batch_norm_under_a_penalty():
    """The critic of WGAN-GP has no batch norm, since its penalty is on the gradient of each sample by itself."""
    p = setting(more=(nn.BatchNorm1d(16),))

    def step():
        x, fake = p.x(), p.G(p.z())
        p.od.zero_grad()
        real, score = p.D(x), p.D(fake.detach())
        between = torch.lerp(x, fake.detach(), torch.rand(B, 1)).requires_grad_(True)
        (by,) = torch.autograd.grad(p.D(between).sum(), between, create_graph=True)  # the third mixture
        (score.mean() - real.mean() + 10 * (by.norm(2, dim=1) - 1).square().mean()).backward()
        p.od.step()
        p.og.zero_grad()
        (-p.D(fake).mean()).backward()
        p.og.step()

    return p, step


@broken("same_way")
def signs_that_agree():
    return alternating(setting(), sign=-1)


@broken("same_way")
def d_takes_fakes_for_real():
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        (g_loss(p.D(p.x())) + g_loss(p.D(fake.detach()))).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("detached_penalty")
def penalty_without_its_graph():
    p = setting()

    def step():
        x, fake = p.x().requires_grad_(True), p.G(p.z())
        p.od.zero_grad()
        real = p.D(x)
        (by,) = torch.autograd.grad(real.sum(), x, retain_graph=True)
        (d_loss(real, p.D(fake.detach())) + by.square().sum(1).mean()).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("fake_unseen")
def d_sees_noise():
    return alternating(setting(), fake_d=torch.randn_like)


@broken("not_finite")
def logarithm_of_zero():
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        (d_loss(p.D(p.x()), p.D(fake.detach())) - (0 * p.D(p.x())).sum().log()).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("in_both")
def one_optimiser_has_both():
    p = setting()
    p.og = torch.optim.Adam([*p.G.parameters(), *p.D.parameters()], 1e-3)
    p.given = p.G, p.D, p.og, p.od
    return alternating(p)


@broken("in_both", "no_optimizer")
def both_optimisers_have_g():
    p = setting()
    p.od = torch.optim.Adam(p.G.parameters(), 1e-3)
    return alternating(p)


@broken("no_gradient")
def gradients_are_cleared_before_the_step():
    p = setting()

    def step():
        fake = p.G(p.z())
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.zero_grad()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("in_none")
def optimiser_of_a_part():
    p = setting()
    p.og = torch.optim.Adam(p.G[0].parameters(), 1e-3)
    p.given = p.G, p.D, p.og, p.od
    return alternating(p)


@broken("zero_gradient")
def saturated():
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        (0 * p.D(fake)).sum().backward()
        p.og.step()

    return p, step
