"""Loops in the styles of many projects, on tiny networks: each returns its networks, its optimisers and one iteration."""

import contextlib
import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import relu, softplus

LATENT, SIZE, B = 4, 2, 8
DETACH, RESAMPLE = "z G r f' D+ f G+", "z G r f' D+ z G f G+"


def mlp(a, b, *more):
    return nn.Sequential(nn.Linear(a, 16), nn.LeakyReLU(0.2), *more, nn.Linear(16, b))


def setting(optimizer=torch.optim.Adam, lr_d=1e-3, latent=LATENT, size=SIZE, more=(), dtype=torch.float32, **settings):
    torch.manual_seed(0)
    g, d = mlp(latent, SIZE).to(dtype), mlp(size, 1, *more).to(dtype)
    og, od = optimizer(g.parameters(), lr=1e-3, **settings), optimizer(d.parameters(), lr=lr_d, **settings)
    return SimpleNamespace(
        G=g, D=d, og=og, od=od, x=lambda: torch.randn(B, SIZE, dtype=dtype), z=lambda: torch.randn(B, latent, dtype=dtype)
    )


def ones(s):
    return torch.ones_like(s)


def zeros(s):
    return torch.zeros_like(s)


def d_loss(real, fake):
    return bce(real, ones(real)) + bce(fake, zeros(fake))


def g_loss(fake):
    return bce(fake, ones(fake))


SOUND = {}
"""Loops by name, with the strategy, its steps, and the trace where it is short."""


def sound(rule, trace=None, d_steps=1, g_steps=1, checked=True, iterations=2):
    def add(make):
        SOUND[make.__name__] = (make, rule, trace, (d_steps, g_steps), checked, iterations)
        return make

    return add


@sound("detach", "r z G f' D+ f G+")
def dcgan_tutorial():
    p = setting(betas=(0.5, 0.999))

    def step():
        p.D.zero_grad()
        noise = p.z()
        real = p.D(p.x()).view(-1)
        bce(real, ones(real)).backward()
        fake = p.G(noise)
        scores = p.D(fake.detach()).view(-1)
        bce(scores, zeros(scores)).backward()
        p.od.step()
        p.G.zero_grad()
        scores = p.D(fake).view(-1)
        bce(scores, ones(scores)).backward()
        p.og.step()

    return p, step


@sound("g_first", "z G f G+ r f' D+")
def generator_before_discriminator():
    """The order of the scripts of one paper each."""
    p = setting()

    def step():
        x = p.x()
        p.og.zero_grad()
        fake = p.G(p.z())
        g_loss(p.D(fake)).backward()
        p.og.step()
        p.od.zero_grad()
        ((bce(real := p.D(x), ones(real)) + bce(score := p.D(fake.detach()), zeros(score))) / 2).backward()
        p.od.step()

    return p, step


@sound("g_first", "z G f G+ r f' D+", checked=False)
def srgan_order():
    """G first with a content term; D's parameters are switched off meanwhile."""
    p = setting()

    def step():
        x = p.x()
        p.D.requires_grad_(False)
        p.og.zero_grad()
        fake = p.G(p.z())
        (F.l1_loss(fake, x) + 1e-3 * g_loss(p.D(fake))).backward()
        p.og.step()
        p.D.requires_grad_(True)
        p.od.zero_grad()
        bce(real := p.D(x), ones(real)).backward()
        bce(score := p.D(fake.detach()), zeros(score)).backward()
        p.od.step()

    return p, step


@sound("detach", None)
def lean_detach():
    p = setting()

    def step():
        p.od.zero_grad()
        fake = p.G(p.z())
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        g = torch.autograd.grad(g_loss(p.D(fake)), [*p.G.parameters()])
        for one, by in zip(p.G.parameters(), g, strict=True):
            one.grad = by
        p.og.step()

    return p, step


@sound("retain_graph", "z G r f D+ f G+")
def kept_graph():
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake)).backward(retain_graph=True)
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@sound("reuse_z", "z G r f' D+ G f G+")
def latents_again():
    p = setting()

    def step():
        z = p.z()
        with torch.no_grad():
            fake = p.G(z)
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake)).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(p.G(z))).backward()
        p.og.step()

    return p, step


@sound("resample", RESAMPLE)
def new_fakes_hinge():
    p = setting()

    def step():
        p.od.zero_grad()
        fake = p.G(p.z()).detach()
        (relu(1 - p.D(p.x())).mean() + relu(1 + p.D(fake)).mean()).backward()
        p.od.step()
        p.og.zero_grad()
        (-p.D(p.G(p.z())).mean()).backward()
        p.og.step()

    return p, step


@sound("g_first_resample", "z G f G+ z G f' r D+")
def generator_first_new_fakes():
    p = setting()

    def step():
        p.og.zero_grad()
        softplus(-p.D(p.G(p.z()))).mean().backward()
        p.og.step()
        p.od.zero_grad()
        with torch.no_grad():
            fake = p.G(p.z())
        (softplus(p.D(fake)) + softplus(-p.D(p.x()))).mean().backward()
        p.od.step()

    return p, step


@sound("joint", "r z G f DG+")
def simultaneous_inputs():
    p = setting(torch.optim.SGD)

    def step():
        p.od.zero_grad()
        p.og.zero_grad()
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        d_loss(real, fake).backward(retain_graph=True, inputs=[*p.D.parameters()])
        g_loss(fake).backward(inputs=[*p.G.parameters()])
        p.od.step()
        p.og.step()

    return p, step


@sound("joint", "z G r f' f DG+")
def simultaneous_scored_twice():
    p = setting(torch.optim.RMSprop)

    def step():
        p.od.zero_grad()
        p.og.zero_grad()
        fake = p.G(p.z())
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.D.requires_grad_(False)
        g_loss(p.D(fake)).backward()
        p.D.requires_grad_(True)
        p.og.step()
        p.od.step()

    return p, step


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, by):
        return -by


@sound("one_stage", "r z G f DG+")
def gradient_reversal():
    p = setting()

    def step():
        p.og.zero_grad()
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(Reverse.apply(p.G(p.z())))).backward()
        p.od.step()
        p.og.step()

    return p, step


@sound("resample", None, d_steps=5)
def wgan_clipped():
    p = setting(torch.optim.RMSprop)

    def step():
        for _ in range(5):
            p.od.zero_grad()
            fake = p.G(p.z()).detach()
            (p.D(fake).mean() - p.D(p.x()).mean()).backward()
            p.od.step()
            for one in p.D.parameters():
                one.data.clamp_(-0.05, 0.05)
        p.og.zero_grad()
        (-p.D(p.G(p.z())).mean()).backward()
        p.og.step()

    return p, step


def slope_penalty(d, real, fake):
    a = torch.rand(len(real), 1)
    between = (a * real + (1 - a) * fake).requires_grad_(True)
    (by,) = torch.autograd.grad(d(between).sum(), between, create_graph=True)
    return ((by.norm(2, dim=1) - 1) ** 2).mean()


@sound("detach", None, d_steps=5, checked=False, iterations=10)
def wgan_gp_every_fifth():
    """The critic steps in every batch, G in every fifth one, on the last fakes."""
    p, count = setting(betas=(0.0, 0.9)), itertools.count(1)

    def step():
        x = p.x()
        p.od.zero_grad()
        fake = p.G(p.z())
        (p.D(fake.detach()).mean() - p.D(x).mean() + 10 * slope_penalty(p.D, x, fake.detach())).backward()
        p.od.step()
        if next(count) % 5 == 0:
            p.og.zero_grad()
            (-p.D(fake).mean()).backward()
            p.og.step()

    return p, step


@sound("resample", None, d_steps=2)
def hinge_with_two_critic_steps():
    p = setting(betas=(0.0, 0.9))

    def step():
        for _ in range(2):
            with torch.no_grad():
                fake = p.G(p.z())
            loss = relu(1 - p.D(p.x())).mean() + relu(1 + p.D(fake)).mean()
            p.od.zero_grad()
            loss.backward()
            p.od.step()
        loss = -p.D(p.G(p.z())).mean()
        p.og.zero_grad()
        loss.backward()
        p.og.step()

    return p, step


@sound("detach", "z G f' D+ f G+", checked=False)
def both_batches_in_one_call():
    """A vocoder's D: it is given real samples and fakes as two arguments, and returns the scores of both."""
    p = setting()
    inner = p.D

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x, fake):
            return self.inner(x), self.inner(fake)

    p.D = Both()

    def step():
        x, fake = p.x(), p.G(p.z())
        p.od.zero_grad()
        d_loss(*p.D(x, fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(x, fake)[1]).backward()
        p.og.step()

    return p, step


@sound("detach", DETACH)
def hinge_that_is_met_by_a_batch():
    """D separates the second batch by more than the margin, so that its gradient is 0 there."""
    p, turns = setting(), itertools.count()

    def step():
        fake, far = p.G(p.z()), 100.0 * (next(turns) % 2)
        p.od.zero_grad()
        (relu(1 - far - p.D(p.x())).mean() + relu(1 - far + p.D(fake.detach())).mean()).backward()
        p.od.step()
        p.og.zero_grad()
        (-p.D(fake).mean()).backward()
        p.og.step()

    return p, step


@sound("resample", None, checked=False)
def accumulation():
    """Each step learns from four parts of its batch; the other network is frozen."""
    p = setting()

    def step():
        p.D.requires_grad_(True)
        p.G.requires_grad_(False)
        p.od.zero_grad()
        for _ in range(4):
            (d_loss(p.D(p.x()), p.D(p.G(p.z()).detach())) / 4).backward()
        p.od.step()
        p.D.requires_grad_(False)
        p.G.requires_grad_(True)
        p.og.zero_grad()
        for _ in range(4):
            (g_loss(p.D(p.G(p.z()))) / 4).backward()
        p.og.step()

    return p, step


@sound("g_first_resample", None, checked=False)
def r3gan():
    """Relativistic pairing with both zero-centred penalties."""
    p = setting(betas=(0.0, 0.99))

    def step():
        fake, x = p.G(p.z()), p.x()
        p.og.zero_grad()
        softplus(-(p.D(fake) - p.D(x))).mean().backward()
        p.og.step()
        x, fake = p.x().requires_grad_(True), p.G(p.z()).detach().requires_grad_(True)
        real, score = p.D(x), p.D(fake)
        (r1,) = torch.autograd.grad(real.sum(), x, create_graph=True)
        (r2,) = torch.autograd.grad(score.sum(), fake, create_graph=True)
        p.od.zero_grad()
        (softplus(-(real - score)).mean() + r1.square().sum(1).mean() + r2.square().sum(1).mean()).backward()
        p.od.step()

    return p, step


@sound("g_first_resample", None, checked=False, iterations=3)
def stylegan2_lazy_r1():
    """A mapping and a synthesis network, and the penalty of D as a step of its own after the usual one."""
    p = setting()
    p.G = nn.ModuleDict({"mapping": mlp(LATENT, 4), "synthesis": mlp(4, SIZE)})
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)
    p.networks_g = [p.G["mapping"], p.G["synthesis"]]

    def generate():
        return p.G["synthesis"](p.G["mapping"](p.z()))

    def step():
        p.D.requires_grad_(False)
        p.G.requires_grad_(True)
        p.og.zero_grad()
        softplus(-p.D(generate())).mean().backward()
        p.og.step()
        p.D.requires_grad_(True)
        p.G.requires_grad_(False)
        p.od.zero_grad()
        x = p.x().requires_grad_(True)
        softplus(p.D(generate())).mean().backward()
        real = p.D(x)
        (by,) = torch.autograd.grad(real.sum(), x, create_graph=True)
        (softplus(-real).mean() + by.square().sum(1).mean()).backward()
        p.od.step()

    return p, step


@sound("g_first_resample", None, checked=False, iterations=4)
def stylegan2_lazy_penalties():
    """Path length and R1 are steps of their own, of the same optimisers, in every second iteration."""
    p, turns, mean = setting(), itertools.count(), torch.zeros(())
    p.G = nn.ModuleDict({"mapping": mlp(LATENT, 4), "synthesis": mlp(4, SIZE)})
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)
    p.networks_g = [p.G["mapping"], p.G["synthesis"]]

    def step():
        lazy = next(turns) % 2 == 0
        p.D.requires_grad_(False)
        p.og.zero_grad()
        softplus(-p.D(p.G["synthesis"](p.G["mapping"](p.z())))).mean().backward()
        p.og.step()
        if lazy:
            p.og.zero_grad()
            w = p.G["mapping"](p.z()[: B // 2])
            made = p.G["synthesis"](w)
            (by,) = torch.autograd.grad((made * torch.randn_like(made)).sum(), w, create_graph=True)
            lengths = by.square().mean(1).sqrt()
            mean.lerp_(lengths.mean().detach(), 0.01)
            (2 * (lengths - mean).square().mean()).backward()
            p.og.step()
        p.D.requires_grad_(True)
        p.od.zero_grad()
        with torch.no_grad():
            fake = p.G["synthesis"](p.G["mapping"](p.z()))
        (softplus(p.D(fake)).mean() + softplus(-p.D(p.x())).mean()).backward()
        p.od.step()
        if lazy:
            p.od.zero_grad()
            x = p.x().requires_grad_(True)
            (by,) = torch.autograd.grad(p.D(x).sum(), x, create_graph=True)
            (10 * by.square().sum(1).mean()).backward()
            p.od.step()

    return p, step


class ExtraAdam(torch.optim.Adam):
    """Looks ahead by a step that it undoes: the weights are kept elsewhere meanwhile, and then lie there."""

    def __init__(self, parameters, **settings):
        super().__init__(parameters, **settings)
        self.here = []

    def extrapolation(self):
        parameters = [p for group in self.param_groups for p in group["params"]]
        self.here = [p.detach().clone() for p in parameters]
        for p in parameters:
            p.data.add_(p.grad, alpha=-1e-3)

    def step(self, closure=None):
        parameters = [p for group in self.param_groups for p in group["params"]]
        for p, here in zip(parameters, self.here, strict=bool(self.here)):
            p.data = here
        self.here = []
        return super().step(closure)


@sound(None, None, checked=False, iterations=3)
def extra_adam():
    """The first backward passes of an iteration move both players ahead, and the second ones move them from where they were."""
    p = setting(ExtraAdam)

    def gradients():
        p.od.zero_grad(), p.og.zero_grad()
        fake = p.G(p.z())
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        g_loss(p.D(fake)).backward(inputs=[*p.G.parameters()])

    def step():
        gradients()
        p.og.extrapolation(), p.od.extrapolation()
        gradients()
        p.og.step(), p.od.step()

    return p, step


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp(SIZE, SIZE)

    def forward(self, source):
        return self.layers(source)


@sound("detach", DETACH, checked=False)
def pix2pix():
    p = setting(size=2 * SIZE)
    p.G = Translator()
    p.og = torch.optim.Adam(p.G.parameters(), 2e-4)

    def step():
        a, b = p.x(), p.x()
        fake = p.G(a)
        p.D.requires_grad_(True)
        p.od.zero_grad()
        real = p.D(torch.cat((a, b), 1))
        score = p.D(torch.cat((a, fake), 1).detach())
        (d_loss(real, score) * 0.5).backward()
        p.od.step()
        p.D.requires_grad_(False)
        p.og.zero_grad()
        (g_loss(p.D(torch.cat((a, fake), 1))) + 100 * F.l1_loss(fake, b)).backward()
        p.og.step()

    step.trace = "z G r f' D+ f G+"
    return p, step


@sound("g_first", None, checked=False)
def cyclegan():
    return two_translators()


def two_translators(fakes_swapped=False, one_side=False):
    p = setting()
    p.ab, p.ba, p.da, p.db = (Translator() for _ in range(4))
    p.da, p.db = mlp(SIZE, 1), mlp(SIZE, 1)
    p.og = torch.optim.Adam([*p.ab.parameters(), *p.ba.parameters()], 2e-4)
    p.oa, p.ob = torch.optim.Adam(p.da.parameters()), torch.optim.Adam(p.db.parameters())
    p.networks_g, p.networks_d, p.optimizers_d = [p.ab, p.ba], [p.da, p.db], [p.oa, p.ob]

    def step():
        a, b = p.x(), p.x()
        fake_b, fake_a = p.ab(a), p.ba(b)
        back_a, back_b = p.ba(fake_b), p.ab(fake_a)
        p.da.requires_grad_(False), p.db.requires_grad_(False)
        p.og.zero_grad()
        adversarial = (p.db(fake_b) - 1).square().mean() + (p.da(fake_a) - 1).square().mean()
        (adversarial + 10 * (F.l1_loss(back_a, a) + F.l1_loss(back_b, b))).backward()
        p.og.step()
        p.da.requires_grad_(True), p.db.requires_grad_(True)
        fakes = (fake_b, fake_a) if fakes_swapped else (fake_a, fake_b)
        for d, optimizer, x, fake in ((p.da, p.oa, a, fakes[0]), (p.db, p.ob, a if one_side else b, fakes[1])):
            optimizer.zero_grad()
            (((d(x) - 1).square().mean() + d(fake.detach()).square().mean()) / 2).backward()
            optimizer.step()

    return p, step


@sound("detach", None, checked=False)
def pool_of_old_fakes():
    p, pool = setting(), []

    def step():
        fake = p.G(p.z())
        pool.append(fake.detach())
        shown = torch.cat([one[:4] for one in pool[-2:]])
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(shown)).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@sound("detach", None, checked=False)
def hifigan():
    """Three discriminators behind one optimiser."""
    p = setting()
    p.ds = nn.ModuleList([mlp(SIZE, 1) for _ in range(3)])
    p.od = torch.optim.AdamW(p.ds.parameters(), 1e-3)
    p.networks_d = [*p.ds]

    def step():
        x = p.x()
        fake = p.G(p.z())
        p.od.zero_grad()
        sum((d(x) - 1).square().mean() + d(fake.detach()).square().mean() for d in p.ds).backward()
        p.od.step()
        p.og.zero_grad()
        (45 * F.l1_loss(fake, x) + sum((d(fake) - 1).square().mean() for d in p.ds)).backward()
        p.og.step()

    return p, step


@sound("g_first", None, checked=False)
def vqgan():
    """Two calls of one loss; the weight of D is balanced by gradients at the last layer."""
    p = setting()
    p.G = Translator()
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)

    def step():
        x = p.x()
        back = p.G(x)
        rebuilt, adversarial = (back - x).abs().mean(), -p.D(back).mean()
        last = p.G.layers[-1].weight
        a, b = (torch.autograd.grad(one, last, retain_graph=True)[0].norm() for one in (rebuilt, adversarial))
        weight = (a / (b + 1e-4)).clamp(0, 1e4).detach()
        p.og.zero_grad()
        (rebuilt + weight * adversarial).backward()
        p.og.step()
        real, fake = p.D(x.detach()), p.D(back.detach())
        p.od.zero_grad()
        (relu(1 - real).mean() + relu(1 + fake).mean()).backward()
        p.od.step()

    return p, step


class Manual(nn.Module):
    """As a LightningModule with manual optimisation."""

    def __init__(self, p):
        super().__init__()
        self.generator, self.discriminator, self.p = p.G, p.D, p

    def forward(self, z):
        return self.generator(z)

    def training_step(self, x):
        og, od = self.p.og, self.p.od
        z = torch.randn(len(x), LATENT).type_as(x)
        fake = self(z)
        loss = g_loss(self.discriminator(fake))
        loss.backward()
        og.step()
        og.zero_grad()
        od.zero_grad()
        d_loss(self.discriminator(x), self.discriminator(self(z).detach())).backward()
        od.step()
        od.zero_grad()


@sound("g_first_reuse_z", "z G f G+ r G f' D+")
def lightning_module():
    """D sees the same latents, generated by the moved G."""
    p = setting()
    module = Manual(p)
    return p, lambda: module.training_step(p.x())


@sound("detach", DETACH, checked=False)
def mixed_precision():
    p = setting()
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)

    def step():
        p.od.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            fake = p.G(p.z())
            loss = d_loss(p.D(p.x()), p.D(fake.detach()))
        scaler.scale(loss).backward()
        scaler.step(p.od)
        p.og.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = g_loss(p.D(fake))
        scaler.scale(loss).backward()
        scaler.step(p.og)
        scaler.update()

    return p, step


@sound("detach", "r z G f' D+ f G+")
def two_rates():
    p = setting(lr_d=4e-3, betas=(0.0, 0.9))

    def step():
        p.D.zero_grad(set_to_none=False)
        real = p.D(p.x())
        fake = p.G(p.z())
        (F.mse_loss(real, ones(real)) + F.mse_loss(score := p.D(fake.detach()), zeros(score))).backward()
        p.od.step()
        p.G.zero_grad(set_to_none=False)
        F.mse_loss(score := p.D(fake), ones(score)).backward()
        p.og.step()

    return p, step


@sound("joint", None, g_steps=2)
def softmaxgan_recipe():
    """One round moves both players, and the next moves G alone."""
    p = setting()

    def partition(real, fake):
        return torch.logsumexp(torch.cat((-real, -fake)), 0)

    def step():
        x = p.x()
        p.od.zero_grad(), p.og.zero_grad()
        real, fake = p.D(x), p.D(p.G(p.z()))
        (real.mean() + partition(real, fake)).sum().backward(retain_graph=True, inputs=[*p.D.parameters()])
        (real.mean() / 2 + fake.mean() / 2 + partition(real, fake)).sum().backward(inputs=[*p.G.parameters()])
        p.od.step()
        p.og.step()
        p.og.zero_grad()
        real, fake = p.D(x), p.D(p.G(p.z()))
        (real.mean() / 2 + fake.mean() / 2 + partition(real, fake)).sum().backward(inputs=[*p.G.parameters()])
        p.og.step()

    return p, step


@sound("one_stage", "r z G f DG+")
def one_value_that_d_maximises():
    """Goodfellow et al. 2014: one value, which D ascends and G descends."""
    p = setting()
    p.od = torch.optim.Adam(p.D.parameters(), 1e-3, maximize=True)

    def step():
        p.og.zero_grad(), p.od.zero_grad()
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        (F.logsigmoid(real).mean() + F.logsigmoid(-fake).mean()).backward()
        p.od.step(), p.og.step()

    return p, step


@sound("detach", DETACH, checked=False)
def d_ascends_by_hand():
    """D's gradients of the value are negated between its backward pass and its step."""
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        (F.logsigmoid(p.D(p.x())).mean() + F.logsigmoid(-p.D(fake.detach())).mean()).backward()
        for one in p.D.parameters():
            one.grad = -one.grad
        p.od.step()
        p.og.zero_grad()
        F.logsigmoid(-p.D(fake)).mean().backward()
        p.og.step()

    return p, step


@sound("extragradient", None)
def extragradient():
    p = setting(torch.optim.SGD)

    def gradients():
        p.od.zero_grad(), p.og.zero_grad()
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        d_loss(real, fake).backward(retain_graph=True, inputs=[*p.D.parameters()])
        g_loss(fake).backward(inputs=[*p.G.parameters()])

    def step():
        weights = [*p.G.parameters(), *p.D.parameters()]
        here = [one.detach().clone() for one in weights]
        gradients()
        p.od.step(), p.og.step()
        gradients()
        with torch.no_grad():
            for one, old in zip(weights, here, strict=True):
                one.copy_(old)
        p.od.step(), p.og.step()

    return p, step


def consensus(strength):
    p = setting(torch.optim.SGD)
    p.D, p.G = (nn.Sequential(net[0], nn.Tanh(), net[-1]) for net in (p.D, p.G))  # which has second derivatives
    p.og, p.od = (torch.optim.SGD(net.parameters(), 1e-2) for net in (p.G, p.D))

    def step():
        d, g = [*p.D.parameters()], [*p.G.parameters()]
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        v = torch.autograd.grad(d_loss(real, fake), d, create_graph=True)
        v += torch.autograd.grad(g_loss(fake), g, create_graph=True)
        norm = sum(one.square().sum() for one in v) / 2
        for one, by, further in zip(d + g, v, torch.autograd.grad(norm, d + g), strict=True):
            one.grad = (by + strength * further).detach()
        p.od.step(), p.og.step()

    return p, step


@sound("consensus", "r z G f DG+")
def consensus_by_hand():
    """Both gradients, and a tenth of the gradient of half their squared norm, as is ganexp's default."""
    return consensus(0.1)


@sound(None, "r z G f DG+", checked=False)
def consensus_of_another_strength():
    return consensus(1.0)


@sound("joint", None)
def moving_average():
    """`joint`, with a third network that follows G and is in no optimiser."""
    p = setting()
    p.ema = mlp(LATENT, SIZE)

    def step():
        p.od.zero_grad(), p.og.zero_grad()
        fake = p.G(p.z())
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        g_loss(p.D(fake)).backward(inputs=[*p.G.parameters()])
        p.od.step(), p.og.step()
        with torch.no_grad():
            for slow, fast in zip(p.ema.parameters(), p.G.parameters(), strict=True):
                slow.lerp_(fast, 0.1)

    return p, step


@sound("resample", None, d_steps=5)
def distillation_critic():
    """Five steps of a critic for one of the student."""
    p = setting(torch.optim.AdamW)

    def step():
        for _ in range(5):
            with torch.no_grad():
                fake = p.G(p.z())
            p.od.zero_grad()
            d_loss(p.D(p.x()), p.D(fake)).backward()
            p.od.step()
        p.og.zero_grad()
        g_loss(p.D(p.G(p.z()))).backward()
        p.og.step()

    return p, step


@sound("detach", None)
def double_precision_minimax():
    p = setting(torch.optim.SGD, dtype=torch.float64)

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        (softplus(-p.D(p.x())) + softplus(p.D(fake.detach()))).mean().backward()
        p.od.step()
        p.og.zero_grad()
        (-softplus(p.D(fake))).mean().backward()
        p.og.step()

    return p, step


@sound("detach", None)
def functional_calls():
    p = setting(torch.optim.SGD)

    def step():
        fake = torch.func.functional_call(p.G, dict(p.G.named_parameters()), (p.z(),))
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@sound("resample", None, checked=False)
def lbfgs_closures():
    """D by closures, each of which scores a batch again."""
    p = setting()
    p.od = torch.optim.LBFGS(p.D.parameters(), lr=0.1, max_iter=2)

    def step():
        x, fake = p.x(), p.G(p.z()).detach()

        def closure():
            p.od.zero_grad()
            loss = d_loss(p.D(x), p.D(fake))
            loss.backward()
            return loss

        p.od.step(closure)
        p.og.zero_grad()
        g_loss(p.D(p.G(p.z()))).backward()
        p.og.step()

    return p, step


@sound("joint", None, checked=True, iterations=4)
def lookahead():
    """Every second iteration, both networks are pulled back towards slow copies."""
    p, count = setting(), itertools.count(1)
    weights = [*p.G.parameters(), *p.D.parameters()]
    slow = [one.detach().clone() for one in weights]

    def step():
        p.od.zero_grad(), p.og.zero_grad()
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        d_loss(real, fake).backward(retain_graph=True, inputs=[*p.D.parameters()])
        g_loss(fake).backward(inputs=[*p.G.parameters()])
        p.od.step(), p.og.step()
        if next(count) % 2 == 0:
            with torch.no_grad():
                for one, old in zip(weights, slow, strict=True):
                    old.lerp_(one, 0.5)
                    one.copy_(old)

    return p, step


@sound(None, None, d_steps=4, checked=False)
def unrolled():
    """D looks three steps ahead for G's sake, and is then put back; its optimiser has no state."""
    p = setting(torch.optim.SGD)

    def d_step(x, fake):
        p.od.zero_grad()
        d_loss(p.D(x), p.D(fake.detach())).backward()
        p.od.step()

    def step():
        x = p.x()
        d_step(x, p.G(p.z()))
        here = [one.detach().clone() for one in p.D.parameters()]
        for _ in range(3):
            d_step(x, p.G(p.z()))
        p.og.zero_grad()
        g_loss(p.D(p.G(p.z()))).backward()
        p.og.step()
        with torch.no_grad():
            for one, old in zip(p.D.parameters(), here, strict=True):
                one.copy_(old)

    return p, step


@sound(None, None, checked=False)
def weights_are_normalised_by_hand():
    """Both players' weights have norm 1 after each iteration, and D has a penalty, so that nothing is checked."""
    p = setting()

    def step():
        x, fake = p.x(), p.G(p.z())
        p.od.zero_grad()
        (d_loss(p.D(x), p.D(fake.detach())) + slope_penalty(p.D, x, fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()
        with torch.no_grad():
            for one in (*p.G.parameters(), *p.D.parameters()):
                one.copy_(one / one.norm())

    return p, step


@sound(None, None, checked=False)
def put_back_by_data():
    """As above, by weights that are given other memory, which is no operation; G has a further term."""
    p = setting()

    def step():
        x, fake = p.x(), p.G(p.z())
        here = [one.data.clone() for one in p.D.parameters()]
        p.od.zero_grad()
        d_loss(p.D(x), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        (g_loss(p.D(fake)) + F.l1_loss(fake, x)).backward()
        p.og.step()
        for one, old in zip(p.D.parameters(), here, strict=True):
            one.data = old + 0.5 * (one.data - old)

    return p, step


@sound("detach", None, checked=False)
def cut():
    """A third network of features moves along G's loss."""
    p = setting()
    p.G, p.F = Translator(), mlp(SIZE, 3)
    p.og, p.of = torch.optim.Adam(p.G.parameters(), 2e-4), torch.optim.Adam(p.F.parameters(), 2e-4)

    def step():
        a, b = p.x(), p.x()
        fake = p.G(a)
        p.D.requires_grad_(True)
        p.od.zero_grad()
        d_loss(p.D(b), p.D(fake.detach())).backward()
        p.od.step()
        p.D.requires_grad_(False)
        p.og.zero_grad(), p.of.zero_grad()
        (g_loss(p.D(fake)) + F.mse_loss(p.F(fake), p.F(a).detach())).backward()
        p.og.step(), p.of.step()

    return p, step


@sound("resample", None)
def labels():
    """Networks that are called with labels, by name."""
    p = setting()
    p.G, p.D = Labelled(LATENT, SIZE), Labelled(SIZE, 1)
    p.og, p.od = (torch.optim.Adam(one.parameters(), 2e-4, betas=(0.5, 0.999)) for one in (p.G, p.D))

    def step():
        y = torch.randint(3, (B,))
        p.od.zero_grad()
        d_loss(p.D(p.x(), label=y), p.D(p.G(p.z(), label=y).detach(), label=y)).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(p.G(p.z(), label=y), label=y)).backward()
        p.og.step()

    return p, step


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([mlp(SIZE, 1), mlp(SIZE, 3)])

    def forward(self, x):
        return [(head(x), x) for head in self.heads]


@sound("detach", DETACH, checked=False)
def scores_with_features():
    """D returns scores of two shapes and, beside them, what it was given."""
    p = setting()
    p.D = Features()
    p.od = torch.optim.Adam(p.D.parameters(), 1e-3)

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        sum(d_loss(real, score) for (real, _), (score, _) in zip(p.D(p.x()), p.D(fake.detach()), strict=True)).backward()
        p.od.step()
        p.og.zero_grad()
        sum(g_loss(score) for score, _ in p.D(fake)).backward()
        p.og.step()

    return p, step


@sound("detach", DETACH, checked=False)
def sparse_gradients():
    p = setting(torch.optim.SGD)
    p.D = Labelled(SIZE, 1)
    p.D.embedding = nn.Embedding(3, SIZE, sparse=True)
    p.od = torch.optim.SGD(p.D.parameters(), 1e-3)

    def step():
        fake, y = p.G(p.z()), torch.randint(3, (B,))
        p.od.zero_grad()
        d_loss(p.D(p.x(), y), p.D(fake.detach(), y)).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake, y)).backward()
        p.og.step()

    return p, step


class Labelled(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.layers, self.embedding = mlp(a, b), nn.Embedding(3, a)

    def forward(self, x, label):
        return self.layers(x + self.embedding(label))


@sound("detach", DETACH)
def lsgan_whose_fakes_score_above_g_s_target():
    """Targets of -1, 1 and 0 (Mao et al. 2017): where fakes score above 0, both losses push their scores down."""
    p = setting()
    p.D[-1].bias.data.fill_(0.5)

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        ((p.D(p.x()) - 1).square().mean() + (p.D(fake.detach()) + 1).square().mean()).backward()
        p.od.step()
        p.og.zero_grad()
        p.D(fake).square().mean().backward()
        p.og.step()

    return p, step


@sound("detach", "z G r f' D+ f G+")
def lsgan_whose_scores_all_lie_below_both_targets():
    """With targets of 0 and 1, where all scores lie below 0, D's loss pushes those of fakes up as well."""
    p = setting()
    p.D[-1].bias.data.fill_(-2.0)

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        ((p.D(p.x()) - 1).square().mean() + p.D(fake.detach()).square().mean()).backward()
        p.od.step()
        p.og.zero_grad()
        (p.D(fake) - 1).square().mean().backward()
        p.og.step()

    return p, step


@sound("detach", checked=False)
def beside_a_classifier_that_helps():
    """The classifier learns from fakes as well, and wants of their scores what G wants."""
    p = setting(latent=LATENT + 1)
    p.C = mlp(SIZE, 1)
    p.oc = torch.optim.Adam(p.C.parameters(), 1e-3)
    p.networks_d, p.optimizers_d = [p.D, p.C], [p.od, p.oc]

    def step():
        label = torch.ones(B, 1)
        fake = p.G(torch.cat([torch.randn(B, LATENT), label], 1))
        p.oc.zero_grad()
        bce(p.C(fake.detach()), label).backward()
        p.oc.step()
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        (g_loss(p.D(fake)) + bce(p.C(fake), label)).backward()
        p.og.step()

    return p, step


class Drawing(nn.Module):
    """Draws its latents itself, for as many samples, or for the labels that it is given."""

    def __init__(self):
        super().__init__()
        self.layers = mlp(LATENT, SIZE)

    def forward(self, of):
        return self.layers(torch.randn(B if isinstance(of, int) else len(of), LATENT))


def drawing(of):
    p = setting()
    p.G = Drawing()
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)

    def step():
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(p.G(of).detach())).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(p.G(of))).backward()
        p.og.step()

    return p, step


@sound("resample", "r z G f' D+ z G f G+")
def latents_drawn_by_g():
    return drawing(B)


@sound("resample", "r z G f' D+ z G f G+")
def latents_drawn_by_g_for_labels():
    return drawing(torch.arange(B) % 3)


@sound("resample", "r z G f' D+ z G f G+")
def labels_before_latents():
    """Labels are the same in every iteration, and the first argument; the latents are not."""
    p = setting()
    p.G = LabelsFirst()
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)
    label = torch.arange(B) % 3

    def step():
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(p.G(label, p.z()).detach())).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(p.G(label, p.z()))).backward()
        p.og.step()

    return p, step


class LabelsFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp(LATENT + 3, SIZE)

    def forward(self, label, z):
        return self.layers(torch.cat([z, F.one_hot(label, 3).to(z)], 1))


@sound("detach", DETACH)
def arguments_in_another_order():
    p = setting()
    p.G = LabelsFirst()
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)

    def step():
        fake = p.G(z=p.z(), label=torch.randint(3, (B,)))
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@sound("detach")
def samples_of_fixed_latents():
    """Nothing learns from them."""
    p, usual = in_the_usual_order(setting())
    fixed = p.z()

    def step():
        usual()
        p.G(fixed).detach()

    return p, step


def in_the_usual_order(p):
    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@sound("detach", DETACH)
def d_without_modes_in_eval():
    p = setting()
    p.D.eval()
    return in_the_usual_order(p)


@sound("detach", "z G r1 r2 f1' f2' D+ f1 f2 G+", checked=False)
def a_body_and_a_head():
    p = setting()
    body, head = mlp(SIZE, 8), nn.Linear(8, 1)
    p.od = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-3)
    p.networks_d, p.D = [body, head], lambda x: head(body(x))
    return in_the_usual_order(p)


@sound("detach", "z G1 r1 r2 f1' f2' D+ f1 f2 G2 G+", checked=False)
def infogan_with_a_common_front_end():
    """Chen et al. 2016: Q reads the features of D's front end, and moves with G."""
    p = setting(latent=LATENT + 3)
    body, head, q = mlp(SIZE, 8), nn.Linear(8, 1), nn.Linear(8, 3)
    p.od = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-3)
    p.og = torch.optim.Adam([*p.G.parameters(), *q.parameters()], 1e-3)
    p.networks_g, p.networks_d = [p.G, q], [body, head]

    def step():
        code = torch.randint(3, (B,))
        fake = p.G(torch.cat([torch.randn(B, LATENT), F.one_hot(code, 3)], 1))
        p.od.zero_grad()
        d_loss(head(body(p.x())), head(body(fake.detach()))).backward()
        p.od.step()
        p.og.zero_grad()
        features = body(fake)
        (g_loss(head(features)) + F.cross_entropy(q(features), code)).backward()
        p.og.step()

    return p, step


@dataclass(slots=True)
class Scored:
    score: torch.Tensor


class ScoredBy(nn.Sequential):
    def forward(self, x):
        return Scored(super().forward(x))


@sound("detach", DETACH, checked=False)
def scores_in_a_dataclass():
    p = setting()
    p.D = ScoredBy(*p.D)

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()).score, p.D(fake.detach()).score).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake).score).backward()
        p.og.step()

    return p, step


@sound("detach", DETACH)
def a_pass_that_fails():
    p, usual = in_the_usual_order(setting())

    def step():
        with contextlib.suppress(RuntimeError):
            p.D(torch.randn(B, SIZE + 1))
        usual()

    return p, step


@sound("detach", "z G f' f' D+ f G+", checked=False)
def halves_of_a_joined_batch():
    """Real samples and fakes are changed in one batch, and scored apart: batch norm sees no mixture."""
    p = setting(more=(nn.BatchNorm1d(16),))

    def step():
        fake = p.G(p.z())
        both = torch.cat([p.x(), fake.detach()]) + 0.01 * torch.randn(2 * B, SIZE)
        real, made = both.chunk(2)
        p.od.zero_grad()
        d_loss(p.D(real), p.D(made)).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@sound("resample", d_steps=2, checked=False)
def wgan_clipped_before_d_moves():
    """As in the authors' code (Arjovsky et al. 2017), where G learns from weights that are clipped only afterwards."""
    p = setting()

    def step():
        for _ in range(2):
            for one in p.D.parameters():
                one.data.clamp_(-0.05, 0.05)
            p.od.zero_grad()
            (p.D(p.G(p.z()).detach()).mean() - p.D(p.x()).mean()).backward()
            p.od.step()
        p.og.zero_grad()
        (-p.D(p.G(p.z())).mean()).backward()
        p.og.step()

    return p, step


@sound("detach", DETACH, checked=False)
def began_by_reconstructions():
    """Berthelot et al. 2017: D's outputs are reconstructions, those of real samples too low and those of fakes too high."""
    p = setting()
    p.D = mlp(SIZE, SIZE)
    p.od = torch.optim.Adam(p.D.parameters(), 1e-3)

    def error(x):
        return (p.D(x) - x).abs().mean()

    def step():
        fake = p.G(p.z()) - 9
        p.od.zero_grad()
        (error(p.x() + 9) - 0.5 * error(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        error(fake).backward()
        p.og.step()

    return p, step


class WithClasses(nn.Module):
    """A score, and beside it the logarithms of probabilities of classes, or a number."""

    def __init__(self, classes, last):
        super().__init__()
        self.body, self.score, self.further, self.last = mlp(SIZE, 8), nn.Linear(8, 1), nn.Linear(8, classes), last

    def forward(self, x):
        h = self.body(x)
        return self.score(h), self.last(self.further(h))


def with_classes(classes, wanted, loss, last):
    p = setting()
    p.D = WithClasses(classes, last)
    p.od = torch.optim.Adam(p.D.parameters(), 1e-3)

    def step():
        fake, y = p.G(p.z()), wanted()
        (real, of_real), (made, of_made) = p.D(p.x()), p.D(fake.detach())
        p.od.zero_grad()
        (d_loss(real, made) + loss(of_real, y) + loss(of_made, y)).backward()
        p.od.step()
        p.og.zero_grad()
        score, further = p.D(fake)
        (g_loss(score) + loss(further, y)).backward()
        p.og.step()

    return p, step


@sound("detach", DETACH, checked=False)
def acgan_with_log_probabilities():
    """Odena et al. 2017: D and G both want fakes to be of their class."""
    return with_classes(3, lambda: torch.randint(3, (B,)), F.nll_loss, nn.LogSoftmax(1))


@sound("detach", DETACH, checked=False)
def acgan_of_a_number():
    return with_classes(1, lambda: torch.full((B, 1), 5.0), F.mse_loss, nn.Identity())


@sound("detach", DETACH)
def fakes_as_a_further_class():
    """Salimans et al. 2016, by logarithms of probabilities, whose gradients all have one sign."""
    p = setting()
    p.D = nn.Sequential(mlp(SIZE, 4), nn.LogSoftmax(1))
    p.od = torch.optim.Adam(p.D.parameters(), 1e-3)

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        (F.nll_loss(p.D(p.x()), torch.randint(3, (B,))) + F.nll_loss(p.D(fake.detach()), torch.full((B,), 3))).backward()
        p.od.step()
        p.og.zero_grad()
        (-F.nll_loss(p.D(fake), torch.full((B,), 3))).backward()
        p.og.step()

    return p, step


@sound("detach", DETACH)
def sources_of_one_sample():
    """D is given a source beside each image, and a batch is one sample: its single score is no loss."""
    p = setting(size=2 * SIZE, latent=SIZE)

    class Beside(nn.Sequential):
        def forward(self, x, source):
            return super().forward(torch.cat([x, source], 1))

    p.D = Beside(*p.D)

    def step():
        source = torch.randn(1, SIZE)
        fake = p.G(source)
        p.od.zero_grad()
        d_loss(p.D(torch.randn(1, SIZE), source), p.D(fake.detach(), source)).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake, source)).backward()
        p.og.step()

    return p, step
