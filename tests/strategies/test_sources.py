"""Sources in place of latents, and terms of G's objective: every strategy trains on them by its own rule."""

import itertools
from dataclasses import replace

import pytest
import torch
from scipy.optimize import linprog
from torch import nn
from torch.nn.functional import softplus

from ganexp import GAN, Batch, Prior, Step, strategies
from ganexp.distributed.batch_norm import synchronise
from ganexp.losses import NonSaturating
from ganexp.penalties import Penalty
from ganexp.sources import PreviewSamples, Sources
from ganexp.terms import L1, L2, FeatureMatching
from ganexp.wrappers import Replay
from tests.composing import every_strategy, suited
from tests.distributed.forks import several
from tests.strategies.maps import exact
from tests.strategies.sourced import WIDE, assert_recorded_and_resumed, batches, target_of, trained
from tests.tiny import BATCH, CASES, LATENT, STRATEGIES, descend, state, tiny_gan


class Drawn:
    """A prior's latents and a list of real batches, in the order in which a strategy draws them."""

    def __init__(self):
        self.order, self.prior = [], Prior(LATENT, seed=3, dtype=torch.float64)

    def sample(self, n):
        self.order.append(("z", self.prior.sample(n)))
        return self.order[-1][1]

    def reals(self):
        for number in itertools.count():
            rng = torch.Generator().manual_seed(number)
            self.order.append(("x", torch.randn(BATCH, 2, generator=rng, dtype=torch.float64)))
            yield Batch(self.order[-1][1])

    def pairs(self):
        """Return the same as pairs: latents drawn right after a real batch are its source, others have their own batch."""
        found = []
        for before, (kind, values) in itertools.pairwise([("", None), *self.order]):
            if kind == "x":
                found.append(Batch(values))
            else:
                if before[0] != "x":
                    found.append(Batch(torch.zeros(BATCH, 2, dtype=torch.float64)))
                found[-1].source = values.values
        for one in found:
            if one.source is None:
                one.source = torch.zeros(BATCH, LATENT, dtype=torch.float64)
        return found


class NearTarget(Penalty):
    """A penalty on G that knows what G should make of each latent."""

    def g_term(self, generator, fake, generate):
        return 3.0 * (fake.values - target_of(fake.source)).abs().mean(1).mean()


class NearInFeatures(NearTarget):
    """The same in the features of D, which a penalty on G is not given."""

    def g_term(self, generator, fake, generate):
        made, wanted = (self.discriminator.features(one) for one in (fake.values, target_of(fake.source)))
        return 3.0 * sum((a - b).abs().mean() for a, b in zip(made, wanted, strict=True)) / len(made)


class Featured(nn.Module):
    """Scores of a point at one place or at 36, with the features of two layers."""

    def __init__(self, places):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(2, 5), nn.Linear(5, 4), nn.Linear(4, places)

    def features(self, x):
        first = self.first(x).tanh()
        return [first, self.second(first).tanh()]

    def forward(self, x):
        scores = self.last(self.features(x)[-1])
        return scores.squeeze(1) if scores.shape[1] == 1 else scores.view(-1, 1, 6, 6)


TERMS = {"l1": (lambda: L1(weight=3.0), NearTarget), "feature_matching": (lambda: FeatureMatching(weight=3.0), NearInFeatures)}


def with_sources(gan, term=None, sources=Sources):
    gan.prior = sources(PreviewSamples(lambda _: None, 0), seed=3, dtype=torch.float64)
    gan.terms = {"term": term or L1(weight=3.0)}
    return gan


class PermutedTargets(Sources):
    def of(self, reals):
        found = super().of(reals)
        found.target = found.target.flip(0)
        return found


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("count", [1, 36])
@pytest.mark.parametrize("strategy", every_strategy())
def test_every_strategy_draws_sources_with_their_batches_and_adds_terms(strategy, count, term):
    loss = suited(strategy)
    case = replace(CASES[loss], discriminator=lambda: Featured(count))
    if count == 36 and not exact(strategy, loss):
        return
    if term == "feature_matching" and strategy in ("unrolled", "competitive"):
        return  # which look at the features of a D ahead, and refuse them: tests of their own
    make, penalty = TERMS[term]
    drawn = Drawn()
    first = tiny_gan(case)
    first.prior, reals = drawn, drawn.reals()
    drawn.is_share = drawn.are_sources = False
    STRATEGIES[strategy](first, reals, d_steps=2, g_steps=2)

    def one_iteration(gan, batches):
        rule, x = STRATEGIES[strategy], iter(batches)
        rule(gan, gan.prior.follow(x), d_steps=2, g_steps=2)
        return state(gan)

    pairs = [Batch(target_of(one.source), source=one.source) for one in drawn.pairs()]
    kinds = [kind for kind, _ in drawn.order]
    of_x = [one.values for one, after in zip(pairs, _owners(kinds), strict=True) if after]
    plain = tiny_gan(case)
    plain.penalty = penalty()
    plain.penalty.discriminator = plain.discriminator
    expected = one_iteration(plain, map(Batch, of_x))
    for a, b in zip(expected, one_iteration(with_sources(tiny_gan(case), make()), pairs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    wrong = one_iteration(with_sources(tiny_gan(case), make(), PermutedTargets), pairs)
    assert any(not torch.allclose(a, b, rtol=1e-6) for a, b in zip(expected, wrong, strict=True))


def _owners(kinds):
    """Return for each pair whether a real batch was drawn for it, and not its source alone."""
    return [kind == "x" for before, kind in itertools.pairwise(["", *kinds]) if kind == "x" or before != "x"]


class Translator(nn.Module):
    """Sources to points, with batch norm."""

    reads_sources = True

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(LATENT, 7, bias=False), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 2))

    def forward(self, source):
        return self.layers(source)


class Beside(nn.Module):
    """36 scores of a point beside its source."""

    reads_source = True

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2 + LATENT, 8, bias=False), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 36))

    def forward(self, x, source):
        return self.layers(torch.cat([x, source], 1)).view(-1, 1, 6, 6)


def pix2pix(processes=None, terms=None, accumulate=1):
    torch.manual_seed(0)
    generator, discriminator = Translator().double(), Beside().double()
    for network in (generator, discriminator):
        if processes is not None:
            synchronise(network, processes)
        if accumulate > 1:
            network.layers[1] = nn.Identity()
    return GAN(
        generator,
        discriminator,
        NonSaturating(),
        torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.999), fused=True),
        torch.optim.Adam(discriminator.parameters(), lr=0.01, betas=(0.5, 0.999), fused=True),
        Sources(PreviewSamples(lambda _: None, 0), seed=3, dtype=torch.float64),
        batch_size=BATCH,
        processes=processes,
        accumulate=accumulate,
        terms=terms or {"l1": L1(weight=10.0)},
    )


def plain_loop(g_first):
    """Train as pix2pix does, or in the order of most SRGANs."""
    gan, reals = pix2pix(), batches()
    for _ in range(4):
        x = next(reals)
        s, t = x.source, x.values
        fake = gan.generator(s)

        def of_d(fake=fake, s=s, t=t):
            real, made = gan.discriminator(t, s), gan.discriminator(fake.detach(), s)
            descend(gan.optimizer_d, softplus(-real).mean() + softplus(made).mean())

        def of_g(fake=fake, s=s, t=t):
            descend(gan.optimizer_g, softplus(-gan.discriminator(fake, s)).mean() + 10 * (fake - t).abs().mean())

        for update in (of_g, of_d) if g_first else (of_d, of_g):
            update()
    return state(gan)


def test_a_plain_pix2pix_loop_is_detach():
    torch.testing.assert_close(
        trained(pix2pix(), strategies.detach)[: len(state(pix2pix()))], plain_loop(False), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("strategy", ["g_first", "joint"])
def test_the_order_of_srgan_is_g_first_and_joint(strategy):
    ends = trained(pix2pix(), STRATEGIES[strategy])[: len(state(pix2pix()))]
    torch.testing.assert_close(ends, plain_loop(True), rtol=1e-10, atol=1e-12)


def shares(processes):
    def share():
        for batch in batches():
            yield processes.own(batch)

    return {name: trained(pix2pix(processes), STRATEGIES[name], reals=share()) for name in ("detach", "joint", "resample")}


def test_two_processes_are_one(tmp_path):
    for ends in several(2, shares, tmp_path):
        for name, end in ends.items():
            torch.testing.assert_close(end, trained(pix2pix(), STRATEGIES[name]), rtol=1e-9, atol=1e-11)


def test_parts_of_a_batch_are_the_whole():
    whole = pix2pix(accumulate=2)
    whole._passes.parts.count = 1
    expected = trained(whole, strategies.detach)
    for count in (2, 3):
        torch.testing.assert_close(trained(pix2pix(accumulate=count), strategies.detach), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("strategy", ["detach", "resample", "extragradient"])
def test_recorded_and_resumed_runs_are_plain_ones(strategy):
    assert_recorded_and_resumed(pix2pix, STRATEGIES[strategy])


def test_replay_shows_d_earlier_fakes_with_their_own_sources():
    gan, replay = pix2pix(), Replay(strategies.detach, size=2 * BATCH, share=0.5)
    shown = []
    gan.discriminator.register_forward_pre_hook(lambda module, given: shown.append([one.detach().clone() for one in given]))
    made = {}
    gan.generator.register_forward_hook(lambda module, given, out: made.update(_rows(given[0], out)))
    trained(gan, replay, 8)
    fakes = [rows for rows in shown if not torch.equal(rows[0], target_of(rows[1]) + 0.1)]
    assert len(fakes) == 16
    for values, source in fakes:
        assert all(torch.equal(made[tuple(s.tolist())], v) for s, v in zip(source, values, strict=True))


def _rows(source, out):
    return {tuple(s.tolist()): v.detach().clone() for s, v in zip(source, out, strict=True)}


class Linear(nn.Module):
    reads_sources = True

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(LATENT, 2))

    def forward(self, source):
        return source @ self.weight


def fitted(term):
    """Train a linear G on one batch by a term whose weight is huge beside the loss, and return the source, target and G."""
    torch.manual_seed(0)
    case = CASES["nonsaturating"]
    gan = with_sources(tiny_gan(case.__class__(case.loss, generator=Linear)), term)
    source = torch.randn(60, LATENT, dtype=torch.float64)
    target = source @ WIDE + torch.randn(60, 2, dtype=torch.float64) ** 3
    gan.batch_size = 60
    gan._g.optimizer = torch.optim.Adam(gan.generator.parameters(), lr=0.05)
    rate = torch.optim.lr_scheduler.ExponentialLR(gan.optimizer_g, 0.994)
    step = Step(gan, strategies.detach)
    for _ in range(1500):
        step(iter([Batch(target, source=source)]))
        rate.step()
    return source, target, gan.generator.weight.detach()


@pytest.mark.slow
def test_a_huge_weight_of_l2_is_least_squares():
    source, target, weight = fitted(L2(weight=1e6))
    torch.testing.assert_close(weight, torch.linalg.lstsq(source, target).solution, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_a_huge_weight_of_l1_is_least_absolute_deviations():
    source, target, weight = fitted(L1(weight=1e6))
    for column in range(2):
        n, eye, s = len(source), torch.eye(len(source)), source
        bound = torch.cat([torch.cat([s, -eye], 1), torch.cat([-s, -eye], 1)])
        ends = torch.cat([target[:, column], -target[:, column]])
        cost = [0.0] * LATENT + [1.0] * n
        least = linprog(cost, A_ub=bound.numpy(), b_ub=ends.numpy(), bounds=[(None, None)] * LATENT + [(0, None)] * n).fun
        assert (source @ weight[:, column] - target[:, column]).abs().sum().item() == pytest.approx(least, rel=2e-3)


def test_the_value_of_a_term_is_logged_without_its_weight():
    gan = pix2pix()
    trained(gan, strategies.detach, 1)
    start = pix2pix()
    x = next(batches())
    value = (start.generator(x.source) - x.values).abs().mean().item()
    assert gan.meter.read({})["terms/l1"] == pytest.approx(value, rel=1e-12)


def test_samples_without_a_source_are_refused():
    with pytest.raises(ValueError, match="give batches"):
        trained(pix2pix(), strategies.detach, 1, reals=iter([Batch(torch.zeros(BATCH, 2, dtype=torch.float64))]))
