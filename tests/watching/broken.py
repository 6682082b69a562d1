"""Broken loops, each with the kinds of its faults, as it is and as the remedies say, and the sound loop that it should be."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from tests.watching import loops
from tests.watching.loops import LATENT, SIZE, B, bce, d_loss, g_loss, mlp, setting

BROKEN = {}
"""Loops by name, with the kinds of their faults, whether torch refuses them, and the sound loop."""


def alternating(
    p, *, fake_d=lambda f: f.detach(), fake_g=lambda f: f, zero_d=True, zero_g=True, z=None, x=None, sign=1, d=None
):
    """Return the usual loop, with one thing changed; `d` is what D's own step calls."""
    d = d or p.D

    def step():
        fake = p.G((z or p.z)())
        if zero_d:
            p.od.zero_grad()
        d_loss(d((x or p.x)()), d(fake_d(fake))).backward()
        p.od.step()
        if zero_g:
            p.og.zero_grad()
        (sign * g_loss(p.D(fake_g(fake)))).backward()
        p.og.step()

    return p, step


def usual():
    return alternating(setting())


def broken(*kinds, raises=False, sound=usual):
    def add(make):
        BROKEN[make.__name__] = (make, kinds, raises, sound)
        return make

    return add


def joint():
    """Both gradients at the old weights, each by itself."""
    p = setting()

    def step():
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        of_d = torch.autograd.grad(d_loss(real, fake), [*p.D.parameters()], retain_graph=True)
        of_g = torch.autograd.grad(g_loss(fake), [*p.G.parameters()])
        for one, by in zip((*p.D.parameters(), *p.G.parameters()), of_d + of_g, strict=True):
            one.grad = by
        p.od.step(), p.og.step()

    return p, step


def with_more(*more, optimizer=torch.optim.Adam):
    return lambda: alternating(setting(optimizer, more=[make() for make in more]))


@broken("other_loss", "stale")
def d_is_not_cleared(mended=False):
    return alternating(setting(), zero_d=mended)


@broken("other_loss", "stale", sound=loops.kept_graph)
def g_is_not_cleared_and_d_not_detached(mended=False):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake)).backward(retain_graph=True)
        p.od.step()
        if mended:
            p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("other_loss", sound=loops.accumulation)
def accumulation_into_both(mended=False):
    """Each step clears its own gradients after it, and G's four backward passes write into D, before D's four."""
    p = setting()

    def step():
        for _ in range(4):
            (d_loss(p.D(p.x()), p.D(p.G(p.z()).detach())) / 4).backward()
        p.od.step(), p.od.zero_grad()
        for _ in range(4):
            (g_loss(p.D(p.G(p.z()))) / 4).backward(inputs=[*p.G.parameters()] if mended else None)
        p.og.step(), p.og.zero_grad()

    return p, step


@broken("stale")
def own_gradients_are_not_cleared(mended=False):
    return alternating(setting(), zero_g=mended)


def with_further_step(mended, further):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad(), p.og.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        if further == "empty" and not mended:
            p.og.step()
        p.od.step()
        p.og.zero_grad(), p.od.zero_grad()
        g_loss(p.D(fake)).backward()
        if further == "D" and not mended:
            p.od.step()
        p.og.step()
        if further == "G" and not mended:
            p.og.step()

    return p, step


@broken("stray_step")
def d_moves_along_g_s_loss_too(mended=False):
    return with_further_step(mended, "D")


@broken("stray_step")
def g_moves_twice(mended=False):
    return with_further_step(mended, "G")


@broken("no_gradient")
def g_moves_in_d_s_part(mended=False):
    return with_further_step(mended, "empty")


@broken("accumulated", sound=joint)
def softmaxgan_in_black(mended=False):
    p = setting()

    def step():
        p.od.zero_grad(), p.og.zero_grad()
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        d_loss(real, fake).backward(retain_graph=True, inputs=[*p.D.parameters()] if mended else None)
        g_loss(fake).backward(inputs=[*p.G.parameters()] if mended else None)
        p.od.step(), p.og.step()

    return p, step


@broken("same_loss", sound=joint)
def one_loss_for_both(mended=False):
    p = setting()

    def step():
        p.od.zero_grad(), p.og.zero_grad()
        real, fake = p.D(p.x()), p.D(p.G(p.z()))
        if mended:
            g_loss(fake).backward(retain_graph=True, inputs=[*p.G.parameters()])
        d_loss(real, fake).backward(inputs=[*p.D.parameters()] if mended else None)
        p.od.step(), p.og.step()

    return p, step


@broken("detached_scores", sound=with_more(optimizer=torch.optim.SGD))
def g_learns_from_detached_fakes(mended=False):
    return alternating(setting(torch.optim.SGD), fake_g=(lambda f: f) if mended else (lambda f: f.detach()))


@broken("no_grad", sound=loops.latents_again)
def fakes_under_no_grad(mended=False):
    p = setting()

    def step():
        z = p.z()
        with torch.no_grad():
            fake = p.G(z)
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake)).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(p.G(z) if mended else fake)).backward()
        p.og.step()

    return p, step


@broken("dead_term", sound=lambda: with_a_term(lambda fake, x: F.l1_loss(fake, x)))
def a_term_of_detached_fakes(mended=False):
    return with_a_term(lambda fake, x: F.l1_loss(fake if mended else fake.detach(), x))


@broken("dead_term", sound=lambda: with_a_term(lambda fake, x: F.l1_loss(fake, x)))
def scores_of_detached_fakes_beside_another_term(mended=False):
    return with_a_term(lambda fake, x: F.l1_loss(fake, x), scored=lambda fake: fake if mended else fake.detach())


@broken("dead_term", sound=lambda: with_a_term(lambda fake, x: F.mse_loss(PERCEPTION(fake), PERCEPTION(x))))
def a_perceptual_loss_under_no_grad(mended=False):
    def perceptual(fake, x):
        with torch.set_grad_enabled(mended):
            return F.mse_loss(PERCEPTION(fake), PERCEPTION(x))

    return with_a_term(perceptual)


PERCEPTION = mlp(SIZE, 3).requires_grad_(False)


def with_a_term(term, scored=lambda fake: fake):
    p = setting()

    def step():
        x, fake = p.x(), p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(x), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        (g_loss(p.D(scored(fake))) + 10 * term(fake, x)).backward()
        p.og.step()

    return p, step


@broken("same_latents")
def the_same_latents(mended=False):
    p = setting()
    z = p.z()
    return alternating(p, z=p.z if mended else lambda: z)


@broken("same_latents")
def the_same_seed(mended=False):
    p = setting()
    return alternating(p, z=p.z if mended else lambda: torch.randn(B, LATENT, generator=torch.Generator().manual_seed(1)))


@broken("freed", raises=True)
def no_detach(mended=False):
    return alternating(setting(), fake_d=lambda f: f.detach() if mended else f)


@broken("no_graph", raises=True)
def g_s_scores_under_no_grad(mended=False):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        with torch.set_grad_enabled(mended):
            score = p.D(fake)
        g_loss(score).backward()
        p.og.step()

    return p, step


@broken("in_place", raises=True, sound=loops.kept_graph)
def kept_scores(mended=False):
    p = setting()

    def step():
        p.od.zero_grad()
        fake = p.G(p.z())
        score = p.D(fake)
        d_loss(p.D(p.x()), score).backward(retain_graph=True)
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake) if mended else score).backward()
        p.og.step()

    return p, step


@broken("eval", sound=with_more(nn.Dropout))
def d_in_eval_mode(mended=False):
    p = setting(more=(nn.Dropout(),))
    p.D.train(mended)
    return alternating(p)


@broken("frozen", "no_gradient", sound=lambda: with_d_frozen(lambda p, on: None))
def d_stays_frozen(mended=False):
    """It is frozen for G's step, and never on again."""
    return with_d_frozen(lambda p, on: None if on and not mended else p.D.requires_grad_(on))


def with_d_frozen(switch):
    p = setting(torch.optim.SGD)

    def step():
        fake = p.G(p.z())
        p.og.zero_grad()
        switch(p, False)
        g_loss(p.D(fake)).backward()
        p.og.step()
        p.od.zero_grad()
        switch(p, True)
        d_loss(p.D(p.x()), p.D(p.G(p.z()))).backward()
        p.od.step()

    return p, step


@broken("frozen", raises=True)
def d_stays_frozen_and_fakes_are_detached(mended=False):
    p = setting()
    p.D.requires_grad_(mended)
    return alternating(p)


@broken("mixed_batch_norm", sound=with_more(lambda: nn.BatchNorm1d(16)))
def real_and_fake_in_one_batch(mended=False):
    p = setting(more=(nn.BatchNorm1d(16),))

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        if mended:
            d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        else:
            scores = p.D(torch.cat((p.x(), fake.detach())))
            bce(scores, torch.cat((torch.ones(B, 1), torch.zeros(B, 1)))).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


def relativistic():
    p = setting(more=(nn.BatchNorm1d(16),))

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        real = p.D(p.x()).mean()
        g_loss(p.D(fake) - real).backward()
        p.og.step()

    return p, step


@broken("mixtures", sound=relativistic)
def three_mixtures(mended=False):
    """D's step has real samples and fakes apart, and G's step has them in one batch, as with a loss on pairs."""
    p = setting(more=(nn.BatchNorm1d(16),))

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        x = p.x()
        real, score = (p.D(x), p.D(fake)) if mended else p.D(torch.cat((x, fake))).split(B)  # the third mixture
        g_loss(score - real.mean()).backward()
        p.og.step()

    return p, step


@broken("mixtures", sound=lambda: critic(lambda p, x, fake: loops.slope_penalty(p.D, x, fake)))
def batch_norm_under_a_penalty(mended=False):
    """The critic of WGAN-GP has no batch norm, since its penalty is on the gradient of each sample by itself."""

    def penalty(p, x, fake):
        a = torch.rand(len(x), 1)
        between = (a * x + (1 - a) * fake).requires_grad_(True)
        (by,) = torch.autograd.grad(p.D(between).sum(), between, create_graph=True)  # the third mixture
        return (by.norm(2, dim=1) - 1).square().mean()

    return critic(penalty, more=() if mended else (nn.BatchNorm1d(16),))


@broken("detached_penalty", sound=lambda: critic(lambda p, x, fake: loops.slope_penalty(p.D, x, fake)))
def penalty_without_its_graph(mended=False):
    def penalty(p, x, fake):
        a = torch.rand(len(x), 1)
        between = (a * x + (1 - a) * fake).requires_grad_(True)
        (by,) = torch.autograd.grad(p.D(between).sum(), between, retain_graph=True, create_graph=mended)
        return (by.norm(2, dim=1) - 1).square().mean()

    return critic(penalty)


def critic(penalty, more=()):
    p = setting(more=more)

    def step():
        x, fake = p.x(), p.G(p.z())
        p.od.zero_grad()
        real, score = p.D(x), p.D(fake.detach())
        (score.mean() - real.mean() + 10 * penalty(p, x, fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        (-p.D(fake).mean()).backward()
        p.og.step()

    return p, step


@broken("same_way")
def signs_that_agree(mended=False):
    return alternating(setting(), sign=1 if mended else -1)


@broken("same_way", sound=lambda: value_function(-1))
def both_maximise(mended=False):
    """Goodfellow et al. 2014, algorithm 1: D ascends the value function, and G descends it."""
    return value_function(0, maximize_g=not mended)


def value_function(sign_d, maximize_g=False):
    """Return a loop on the value of the game, which D ascends by its optimiser, or by the sign of its loss."""
    p = setting()
    p.od = torch.optim.Adam(p.D.parameters(), 1e-3, maximize=not sign_d)
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3, maximize=maximize_g)

    def value(real, fake):
        return F.logsigmoid(real).mean() + F.logsigmoid(-fake).mean()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        ((sign_d or 1) * value(p.D(p.x()), p.D(fake.detach()))).backward()
        p.od.step()
        p.og.zero_grad()
        value(p.D(p.x()), p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("same_way")
def gradients_negated_by_hand(mended=False):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        (-g_loss(p.D(fake)) if mended else g_loss(p.D(fake))).backward()
        for one in p.G.parameters():
            one.grad.neg_()
        p.og.step()

    return p, step


@broken("same_way")
def d_takes_fakes_for_real(mended=False):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        (g_loss(p.D(p.x())) + bce(score := p.D(fake.detach()), torch.full_like(score, 1.0 - mended))).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("wrong_sign", sound=lambda: with_reconstructions(g_loss))
def one_term_of_the_wrong_sign(mended=False):
    return with_reconstructions(lambda score: g_loss(score) if mended else -g_loss(score))


@broken("no_optimizer", sound=lambda: with_reconstructions(g_loss))
def an_encoder_without_an_optimiser(mended=False):
    return with_reconstructions(g_loss, learns=mended)


def with_reconstructions(loss, learns=True):
    """D scores reconstructions as well, and G and the encoder want them to be taken for real."""
    p = setting()
    p.E = mlp(SIZE, LATENT)
    p.og = torch.optim.Adam([*p.G.parameters(), *(p.E.parameters() if learns else ())], 1e-3)

    def step():
        x, fake = p.x(), p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(x), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        again = p.G(p.E(x))
        (g_loss(p.D(fake)) + F.mse_loss(again, x) + 0.1 * loss(p.D(again))).backward()
        p.og.step()

    return p, step


@broken("fake_unseen")
def d_sees_noise(mended=False):
    return alternating(setting(), fake_d=(lambda f: f.detach()) if mended else torch.randn_like)


@broken("real_unseen")
def d_sees_fakes_alone(mended=False):
    p = setting()

    def step():
        fake, x = p.G(p.z()), p.x()
        p.od.zero_grad()
        score = p.D(fake.detach())
        (d_loss(p.D(x), score) if mended else bce(score, torch.zeros_like(score))).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("others_samples", sound=loops.cyclegan)
def fakes_of_the_other_translator(mended=False):
    return loops.two_translators(fakes_swapped=not mended)


@broken("others_samples", sound=loops.cyclegan)
def sources_as_real_samples(mended=False):
    """Both Ds are given the images of one side as real."""
    return loops.two_translators(one_side=not mended)


@broken("never_moves")
def d_without_its_step(mended=False):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        if mended:
            p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("put_back", sound=lambda: unrolled_on_copies())
def momenta_that_are_not_put_back(mended=False):
    """D looks ahead for G's sake, and its weights alone are put back."""
    p = setting()

    def step():
        here = copy.deepcopy((p.D.state_dict(), p.od.state_dict()))
        for _ in range(3):
            p.od.zero_grad()
            d_loss(p.D(p.x()), p.D(p.G(p.z()).detach())).backward()
            p.od.step()
        p.og.zero_grad()
        g_loss(p.D(p.G(p.z()))).backward()
        p.og.step()
        p.D.load_state_dict(here[0])
        if mended:
            p.od.load_state_dict(here[1])
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(p.G(p.z()).detach())).backward()
        p.od.step()

    return p, step


def unrolled_on_copies():
    p = setting()

    def d_step(d, optimizer):
        optimizer.zero_grad()
        d_loss(d(p.x()), d(p.G(p.z()).detach())).backward()
        optimizer.step()

    def step():
        d, optimizer = copy.deepcopy((p.D, p.od))
        for _ in range(3):
            d_step(d, optimizer)
        p.og.zero_grad()
        g_loss(d(p.G(p.z()))).backward()
        p.og.step()
        d_step(p.D, p.od)

    return p, step


@broken("logits")
def a_sigmoid_under_logits(mended=False):
    p = setting()
    p.D = nn.Sequential(*p.D, *([] if mended else [nn.Sigmoid()]))
    return alternating(p)


@broken("logits", sound=loops.acgan_with_log_probabilities)
def a_softmax_under_cross_entropy(mended=False):
    last = nn.Identity() if mended else nn.Softmax(1)
    return loops.with_classes(3, lambda: torch.randint(3, (B,)), F.cross_entropy, last)


def in_a_range(last, x):
    p = setting()
    p.G = nn.Sequential(*p.G, last)
    return alternating(p, x=x)


@broken("range", sound=lambda: in_a_range(nn.Tanh(), lambda: torch.empty(B, SIZE).uniform_(-1, 1)))
def data_in_0_1_and_a_tanh(mended=False):
    return in_a_range(nn.Tanh(), lambda: 2 * torch.rand(B, SIZE) - 1 if mended else torch.rand(B, SIZE))


@broken("range", sound=lambda: in_a_range(nn.Tanh(), lambda: 2 * torch.rand(B, SIZE) - 1))
def a_sigmoid_for_data_around_0(mended=False):
    return in_a_range(nn.Tanh() if mended else nn.Sigmoid(), lambda: 2 * torch.rand(B, SIZE) - 1)


@broken("not_finite")
def logarithm_of_zero(mended=False):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        loss = d_loss(p.D(p.x()), p.D(fake.detach()))
        (loss if mended else loss - (0 * p.D(p.x())).sum().log()).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("in_both")
def one_optimiser_has_both(mended=False):
    p = setting()
    p.og = torch.optim.Adam([*p.G.parameters(), *(() if mended else p.D.parameters())], 1e-3)
    p.given = p.G, p.D, p.og, p.od
    return alternating(p)


@broken("in_both", "no_optimizer")
def both_optimisers_have_g(mended=False):
    p = setting()
    p.od = torch.optim.Adam((p.D if mended else p.G).parameters(), 1e-3)
    return alternating(p)


@broken("no_gradient")
def gradients_are_cleared_before_the_step(mended=False):
    p = setting()

    def step():
        fake = p.G(p.z())
        if mended:
            p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        if not mended:
            p.od.zero_grad()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    return p, step


@broken("in_none")
def optimiser_of_a_part(mended=False):
    p = setting()
    p.og = torch.optim.Adam((p.G if mended else p.G[0]).parameters(), 1e-3)
    p.given = p.G, p.D, p.og, p.od
    return alternating(p)


@broken("zero_gradient")
def saturated(mended=False):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        (g_loss(p.D(fake)) if mended else (0 * p.D(fake)).sum()).backward()
        p.og.step()

    return p, step
