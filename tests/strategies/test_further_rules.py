"""Update rules against their papers' formulae: rates on games known in closed form, and dense Jacobians of a tiny GAN."""

import copy
import math

import numpy as np
import pytest
import torch
from torch.func import functional_call

from ganexp import strategies
from ganexp.losses import WGAN, Loss
from ganexp.optimizers import ComplexMomentum, NegativeMomentum
from ganexp.strategies.simultaneous import simultaneous
from ganexp.strategies.steps import looking_ahead
from ganexp.streams import stream
from tests.strategies.dirac import REALS, Slope, dirac_gan
from tests.tiny import BATCH, CASES, KINDS, LATENT, UNHELD, real_batches, state, tiny_gan, train


def steps_of(strategy, gan, count):
    """Return (θ, ψ) after each iteration, but for the first two, in which a memory fills."""
    for _ in range(2):
        strategy(gan, REALS, d_steps=1, g_steps=1)
    points = []
    for _ in range(count):
        points.append([gan.generator.theta.item(), gan.discriminator.psi.item()])
        strategy(gan, REALS, d_steps=1, g_steps=1)
    return np.array(points)


def radius(points, order):
    """Return the largest modulus among the roots of the linear recurrence of an order that points follow."""
    past = np.concatenate([points[k : k + order].T for k in range(len(points) - order)])
    coefficients, *_ = np.linalg.lstsq(past, points[order:].ravel(), rcond=None)
    np.testing.assert_allclose(past @ coefficients, points[order:].ravel(), atol=1e-9 * np.abs(points).max())
    return np.abs(np.roots([1, *-coefficients[::-1]])).max()


def of_alex(gamma, delta):
    """Return ρ as the largest root of the paper's polynomial."""
    return lambda eta: np.abs(
        np.roots(
            np.polyadd(
                np.polymul([1, -2, 1], [1, gamma * delta * eta**2]),
                [(gamma + delta) * eta**2, -gamma * eta**2 - delta * eta**2 + eta**2],
            )
        )
    ).max()


def of_lead(alpha, momentum):
    """Return ρ as the largest root of λ² − (1 + β − μ(η + α))λ + β − αμ, μ = ±i, with the paper's α; β is the optimiser's."""

    def known(eta):
        return np.abs(np.roots([1, -(1 + momentum - 1j * (eta + alpha * eta)), momentum - 1j * alpha * eta])).max()

    known.momentum = momentum
    return known


def of_momentum(beta):
    """Return ρ of alternating descent with the heavy ball, as the largest root of (λ − 1)² (λ − β)² + η² λ³."""

    def known(eta):
        return np.abs(np.roots(np.polyadd(np.polymul([1, -2, 1], [1, -2 * beta, beta**2]), [eta**2, 0, 0, 0]))).max()

    known.momentum = beta
    return known


RATES = [
    # a rule, its ρ on xy, and the order of the recurrence that it follows there
    (strategies.joint, lambda eta: math.sqrt(1 + eta**2), 2),
    (strategies.detach, lambda eta: 1.0, 2),
    (strategies.detach, of_momentum(-0.5), 4),
    (strategies.detach, of_momentum(0.5), 4),
    (strategies.AlexGDA(gamma=2, delta=1), lambda eta: math.sqrt(1 - eta**2), 2),
    (strategies.AlexGDA(gamma=1, delta=2), lambda eta: math.sqrt(1 - eta**2), 3),
    (strategies.AlexGDA(gamma=0, delta=1), of_alex(0, 1), 2),
    (strategies.AlexGDA(gamma=2, delta=2), of_alex(2, 2), 3),
    (strategies.AlexGDA(gamma=0.5, delta=1.5), of_alex(0.5, 1.5), 3),
    (strategies.Extragradient(), lambda eta: math.sqrt(1 - eta**2 + eta**4), 2),
    (strategies.Extragradient(ahead=2.5, same_batch=True), lambda eta: math.sqrt((1 - 2.5 * eta**2) ** 2 + eta**2), 2),
    (strategies.PastExtragradient(), lambda eta: np.abs(np.roots([1, 2j * eta - 1, -1j * eta])).max(), 4),
    (
        strategies.PastExtragradient(decay=0.6),  # (z, m) → (z − ημ(z − ηm), 0.6m + 0.4μ(z − ηm)), with μ = i
        lambda eta: np.abs(np.roots([1, 1.4j * eta - 1.6, 0.6 - 1j * eta])).max(),
        4,
    ),
    (strategies.Consensus(gamma=2.0), lambda eta: math.sqrt((1 - 2 * eta) ** 2 + eta**2), 2),
    (strategies.Symplectic(strength=0.5), lambda eta: math.sqrt((1 - 0.5 * eta) ** 2 + eta**2), 2),
    (strategies.Competitive(), lambda eta: 1 / math.sqrt(1 + eta**2), 2),
    (strategies.Drift(), lambda eta: math.sqrt(1 + eta**4 / 4), 2),
    (strategies.Lead(), of_lead(1, 0), 4),
    (strategies.Lead(alpha=0.6), of_lead(0.6, 0), 4),
    (strategies.Lead(alpha=0.6), of_lead(0.6, -0.3), 4),
    (strategies.Hamiltonian(), lambda eta: 1 - eta, 1),
    (strategies.RungeKutta(order=2), lambda eta: math.sqrt(1 + eta**4 / 4), 2),
    (strategies.RungeKutta(order=4), lambda eta: math.sqrt(1 - eta**6 / 72 + eta**8 / 576), 2),
    (strategies.Jare(gamma=0.8), lambda eta: math.sqrt((1 - 0.8 * eta) ** 2 + eta**2), 2),
]


@pytest.mark.parametrize("eta", [0.3, 0.7])
@pytest.mark.parametrize(("rule", "known", "order"), RATES)
def test_the_known_rate_on_the_bilinear_game(rule, known, order, eta):
    momentum = getattr(known, "momentum", 0.0)
    make = NegativeMomentum if momentum < 0 else torch.optim.SGD
    gan = dirac_gan(WGAN(), lambda parameters, lr: make(parameters, lr=eta, momentum=momentum))
    assert radius(steps_of(copy.deepcopy(rule), gan, 12), order) == pytest.approx(known(eta), rel=1e-7)


@pytest.mark.parametrize(
    ("angle", "eta", "contracts"), [(0.0, 0.1, False), (math.pi / 8, 0.1, True), (math.pi / 8, 0.3, False), (1.2, 0.3, True)]
)
def test_the_rate_of_complex_momentum_on_the_bilinear_game(angle, eta, contracts):
    """That of the linear map of the velocity's two parts and a point, for simultaneous steps; v has the eigenvalue i."""
    r, s = 0.8 * math.cos(angle), 0.8 * math.sin(angle)
    known = np.abs(np.linalg.eigvals([[r, -s, -1j], [s, r, 0], [eta * r, -eta * s, 1 - 1j * eta]])).max()
    gan = dirac_gan(WGAN(), lambda parameters, lr: ComplexMomentum(parameters, lr=eta, momentum=0.8, angle=angle))
    assert radius(steps_of(strategies.joint, gan, 18), 6 if angle else 4) == pytest.approx(known, rel=1e-6)
    assert (known < 1) == contracts


class Saddle(Slope):
    """Scores by which G descends −3x² − y² + 4xy, and D ascends it."""

    def forward(self, x):
        return 3 * x.squeeze(1) ** 2 + self.psi**2 - 4 * self.psi * x.squeeze(1)


class OfFakes(Loss):
    def d_loss(self, real, fake):
        return fake.mean()

    def g_loss(self, real, fake):
        return -fake.mean()


@pytest.mark.parametrize(("rule", "known"), [(strategies.joint, 1.1), (strategies.FollowTheRidge(damping=0.0), 0.9)])
def test_the_known_rate_where_the_solution_is_a_ridge(rule, known):
    gan = dirac_gan(OfFakes(), lambda parameters, lr: torch.optim.SGD(parameters, lr=0.05))
    gan.discriminator.__class__ = Saddle
    assert radius(steps_of(rule, gan, 12), 2) == pytest.approx(known, rel=1e-5)  # the root is double


def test_where_d_has_no_curvature_nothing_is_added():
    rules = strategies.joint, strategies.FollowTheRidge(damping=0.0)
    np.testing.assert_array_equal(*(steps_of(rule, dirac_gan(WGAN()), 4) for rule in rules))


class Game:
    """A tiny GAN as a field over one flat vector w = (ψ, θ), with random streams and optimisers of its own."""

    def __init__(self, loss):
        gan = tiny_gan(CASES[loss])
        self.name, self.loss, self.networks = loss, gan.loss, (gan.discriminator, gan.generator)
        self.optimizers = gan.optimizer_d, gan.optimizer_g
        self.latents, self.shares, self.reals = stream(3, "latents"), stream(3, "gradient penalty"), real_batches()
        self.parameters = [[*network.parameters()] for network in self.networks]
        self.sizes = [p.numel() for own in self.parameters for p in own]
        self.n = sum(p.numel() for p in self.parameters[0])
        self.gan, self.past = gan, None

    def draw(self):
        """Draw a batch, and return where both players are."""
        self.x = next(self.reals)
        self.z = torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=self.latents)
        return self.w()

    def w(self):
        return torch.cat([p.detach().flatten() for own in self.parameters for p in own])

    def of(self, d, g):
        """Return a vector with D's part of one and G's part of another."""
        return torch.cat([d[: self.n], g[self.n :]])

    def scored(self, w, draws, counts):
        """Return both objectives at w; those that count move k_t."""
        parts = iter(w.split(self.sizes))
        values = [{name: next(parts).view_as(p) for name, p in one.named_parameters()} for one in self.networks]
        D, G = (
            lambda x, one=one, own=own: functional_call(one, own, (x,)) for one, own in zip(self.networks, values, strict=True)
        )
        fake = G(self.z)
        r, f = D(self.x), D(fake)
        if "d" in counts:
            self.r = r.mean().item()
        if "g" in counts:
            self.f = f.mean().item()
        d = self.loss.d_loss(r, f)
        if self.name == "wgan_gp":
            if draws:
                self.share = torch.empty(BATCH, 1, dtype=torch.float64).uniform_(generator=self.shares)
            between = self.share * self.x + (1 - self.share) * fake
            (derivative,) = torch.autograd.grad(D(between).sum(), between, create_graph=True)
            d = d + 10 * ((derivative.norm(dim=1) - 1) ** 2).mean()
        return d, self.loss.g_loss(r, f)

    def field(self, w, *, draws=True, counts="dg"):
        w = w if w.requires_grad else w.clone().requires_grad_()
        d, g = (torch.autograd.grad(one, w, create_graph=True)[0] for one in self.scored(w, draws, counts))
        return self.of(d, g)

    def v(self, w, **settings):
        return self.field(w, **settings).detach()

    def j(self, w):
        """Return the dense Jacobian of v at w, with the random numbers of the last v."""
        return torch.autograd.functional.jacobian(lambda w: self.field(w, draws=False, counts=""), w, vectorize=True)

    def across(self, j):
        """Return a Jacobian without its diagonal blocks."""
        return torch.block_diag(*(torch.ones(k, k) for k in (self.n, len(j) - self.n))).eq(0) * j

    def put(self, w):
        parts = iter(w.split(self.sizes))
        for own in self.parameters:
            for p in own:
                p.data.copy_(next(parts).view_as(p))

    def move(self, u, who="dg"):
        """Feed a vector to the optimisers."""
        rest = iter(u.split(self.sizes))
        for own, optimizer, name in zip(self.parameters, self.optimizers, "dg", strict=True):
            for p in own:
                p.grad = next(rest).view_as(p).clone()
            if name in who:
                optimizer.step()
            if name == "d" and self.name == "wgan":
                for p in own:
                    p.data.clamp_(-0.2, 0.2)

    def end_iteration(self):
        if self.name == "began":
            self.loss.k_t.fill_(min(max(self.loss.k_t.item() + 0.3 * (0.5 * self.r - self.f), 0.0), 1.0))


RATE_D, RATE_G = 0.02, 0.05
BY_HAND = {}


def by_hand(strategy):
    def keep(rule):
        BY_HAND[rule.__name__] = (strategy, rule)
        return rule

    return keep


@by_hand(strategies.AlexGDA(gamma=1.7, delta=0.6))
def alex_gda(game):
    w = game.draw()
    past = w if game.past is None else game.past
    game.past = w
    game.move(game.v(game.of(w, past + 0.6 * (w - past)), counts="d"), "d")
    after = game.w()
    game.move(game.v(game.of(w + 1.7 * (after - w), w), draws=False, counts="g"), "g")


@by_hand(strategies.Extragradient(ahead=2.5, same_batch=True))
def extragradient(game):
    w = game.draw()
    game.move(game.v(w, counts=""))
    there = game.v(w + 2.5 * (game.w() - w))
    game.put(w)
    game.move(there)


@by_hand(strategies.PastExtragradient())
def past_extragradient(game):
    w = game.draw()
    if game.past is not None:
        game.move(game.past)
    game.past = game.v(game.w())
    game.put(w)
    game.move(game.past)


@by_hand(strategies.PastExtragradient(decay=0.6))
def averaged_extragradient(game):
    w = game.draw()
    if game.past is not None:
        game.move(game.past)
    there = game.v(game.w())
    game.past = there if game.past is None else 0.6 * game.past + 0.4 * there
    game.put(w)
    game.move(there)


@by_hand(strategies.Consensus(gamma=0.3))
def consensus(game):
    w = game.draw()
    v = game.v(w)
    game.move(v + 0.3 * game.j(w).T @ v)


@by_hand(strategies.Symplectic(strength=0.7))
def symplectic(game):
    w = game.draw()
    v, j = game.v(w), game.j(w)
    adjustment = (j - j.T).T @ v / 2
    alignment = (v @ j.T @ v) * (adjustment @ j.T @ v) / len(v)
    game.move(v + 0.7 * torch.sign(alignment + 0.1) * adjustment)


@by_hand(strategies.Jare(gamma=0.3))
def jare(game):
    w = game.draw()
    v = game.v(w)
    game.move(v + 0.3 * game.across(game.j(w)).T @ v)


@by_hand(strategies.Drift())
def drift(game):
    w = game.draw()
    v = game.v(w)
    turn = game.across(game.j(w)) @ v
    game.move(v - game.of(RATE_D / 2 * turn, RATE_G / 2 * turn))


@by_hand(strategies.Drift(alternating=True))
def drift_alternating(game):
    for who, w in (("d", game.draw()), ("g", None)):
        w = game.w() if w is None else w
        v = game.v(w, counts=who)
        turn = game.across(game.j(w)) @ v
        game.move(v - game.of(RATE_D / 2 * turn, RATE_G / 2 * (2 * RATE_D / RATE_G - 1) * turn), who)


@by_hand(strategies.Lead(alpha=0.7))
def lead(game):
    w = game.draw()
    motion = 0 * w if game.past is None else w - game.past
    game.past = w
    v = game.v(w)
    game.move(v + 0.7 * game.across(game.j(w)) @ motion)


@by_hand(strategies.Hamiltonian())
def hamiltonian(game):
    w = game.draw()
    v = game.v(w)
    game.move(game.j(w).T @ v)


@by_hand(strategies.RungeKutta(order=2, rate=0.1))
def heun(game):
    w = game.draw()
    v = game.v(w)
    game.move((v + game.v(w - 0.1 * v, counts="")) / 2)


@by_hand(strategies.RungeKutta(order=4, regulariser=0.3))
def runge_kutta(game):
    w = game.draw()
    rates = game.of(RATE_D * torch.ones_like(w), RATE_G * torch.ones_like(w))
    first = game.v(w)
    length = torch.autograd.functional.jacobian(lambda w: game.field(w, draws=False, counts="")[game.n :].square().sum(), w)
    second = game.v(w - rates / 2 * first, counts="")
    third = game.v(w - rates / 2 * second, counts="")
    fourth = game.v(w - rates * third, counts="")
    game.move((first + 2 * second + 2 * third + fourth) / 6 + game.of(0.3 * length, 0 * w))


@by_hand(strategies.FollowTheRidge(steps=60, damping=30.0, tolerance=1e-14))
def follow_the_ridge(game):
    w, n = game.draw(), game.n
    v, j = game.v(w), game.j(w)
    ridge = torch.linalg.solve(j[:n, :n] + 30 * torch.eye(n), j[:n, n:] @ v[n:])
    game.move(torch.cat([v[:n] - RATE_G / RATE_D * ridge, v[n:]]))


@pytest.mark.parametrize("loss", ["hinge", *(pytest.param(one, marks=pytest.mark.slow) for one in KINDS if one != "hinge")])
@pytest.mark.parametrize("name", BY_HAND)
def test_each_rule_is_a_loop_written_by_hand(name, loss):
    strategy, rule = BY_HAND[name]
    strategy, gan, game, reals = copy.deepcopy(strategy), tiny_gan(CASES[loss]), Game(loss), real_batches()
    for _ in range(5):
        strategy(gan, reals, d_steps=1, g_steps=1)
        gan.finish_iteration()
        rule(game)
        game.end_iteration()
    ends = [state(one)[: -1 if loss in UNHELD else None] for one in (gan, game.gan)]  # D's last bias only shifts scores
    torch.testing.assert_close(*ends, rtol=1e-10, atol=1e-10)


def gidel(gan, reals):
    """Move both networks as extragradient did before its step ahead had a length."""
    with looking_ahead([*gan.g_parameters, *gan.d_parameters]):
        gan.move(*gan.gradients(*gan.losses(next(reals), gan.generate(gan.sample()))))
        d, g = gan.losses(next(reals), gan.generate(gan.sample()))
        there = gan.gradients(d, g)
    gan.update_both(d, g, there)


CORNERS = [
    (lambda: strategies.AlexGDA(gamma=0, delta=1), strategies.joint, (1, 1)),
    (lambda: strategies.AlexGDA(gamma=0, delta=1), strategies.joint, (3, 2)),
    (lambda: strategies.AlexGDA(gamma=1, delta=1), strategies.reuse_z, (1, 1)),
    (lambda: strategies.AlexGDA(gamma=1, delta=1), strategies.reuse_z, (1, 3)),
    (strategies.Extragradient, simultaneous(gidel), (3, 2)),
    (lambda: strategies.Jare(gamma=0), strategies.joint, (2, 1)),
    (lambda: strategies.Lead(alpha=0), strategies.joint, (2, 1)),
    (lambda: strategies.Drift(rate=0), strategies.joint, (1, 2)),
    (lambda: strategies.Drift(rate=0, alternating=True), strategies.detach, (1, 1)),
]


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize(("corner", "known", "steps"), CORNERS)
def test_corners_are_strategies_to_the_last_bit(corner, known, steps, loss):
    if known is strategies.detach and loss == "wgan_gp":
        pytest.skip("the penalty draws once more")
    d_steps, g_steps = steps
    ends = [train(tiny_gan(CASES[loss]), one, d_steps=d_steps, g_steps=g_steps) for one in (corner(), known)]
    assert all(map(torch.equal, *ends))
