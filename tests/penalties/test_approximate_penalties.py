"""Approximate penalties against the exact ones as the noise goes to 0, and the centring of scores against a plain loop."""

import itertools

import pytest
import torch
from torch import nn

from ganexp import build, strategies
from ganexp.batch import Batch
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.losses import Minimax, NonSaturating, RpGAN
from ganexp.penalties import R1, R1R2, R2, ApproximateR1, ApproximateR1R2, ApproximateR2, Centring, NoPenalty
from ganexp.streams import stream
from tests.composing import composed, every_strategy
from tests.distributed.alike import assert_the_same
from tests.small_runs import NARROW
from tests.strategies.maps import on_places
from tests.tiny import STRATEGIES, ZERO_SUM, Case, descend, gan_in_parts, iterate, real_batches, state, tiny_gan, train

EXACT = {"r1": (ApproximateR1, R1), "r2": (ApproximateR2, R2), "r1r2": (ApproximateR1R2, R1R2)}


class Scorer(nn.Module):
    """Score points beside what they are conditioned on: labels, sources, or nothing; at one place of each, or at many."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.first, self.last = nn.Linear(3, 7), nn.Linear(7, 6 if kind == "maps" else 1)
        self.labels, self.sources = nn.Embedding(4, 7), nn.Linear(2, 7)

    def forward(self, x, *conditions):
        hidden = self.first(x)
        for one in conditions:
            hidden = hidden * (self.sources(one) if one.is_floating_point() else self.labels(one))
        scores = self.last(hidden.tanh())
        return scores.view(-1, 1, 2, 3) if self.kind == "maps" else scores.flatten()


def batch_of(kind, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(8, 3, generator=draw, dtype=torch.float64)
    conditions = {
        "labels": (torch.randint(4, (8,), generator=draw),),
        "sources": (torch.randn(8, 2, generator=draw, dtype=torch.float64),),
    }
    return Batch(x, conditions.get(kind, ()))


def extrapolated(value):
    """Return the limit of an even function of σ as σ → 0, by Richardson's scheme."""
    row = [value(0.02 / 2**k) for k in range(4)]
    for order in range(1, 4):
        row = [b + (b - a) / (4**order - 1) for a, b in itertools.pairwise(row)]
    return row[0]


@pytest.mark.parametrize("kind", ["scores", "labels", "sources", "maps"])
@pytest.mark.parametrize("name", EXACT)
def test_without_noise_it_is_the_exact_penalty(name, kind):
    """With noise along each axis and its opposite, whose mean square is that of standard normal noise: values and gradients."""
    approximate, exact = EXACT[name]
    torch.manual_seed(0)
    D = Scorer(kind).double()
    x, fake = batch_of(kind, 1), batch_of(kind, 2)
    axes = torch.eye(3, dtype=torch.float64) * 3**0.5

    def value(sigma):
        found = []
        for axis in (*axes, *-axes):
            penalty = approximate(weight=1 / sigma**2, noise=sigma)
            penalty.drawn = lambda values, axis=axis: axis.expand_as(values)
            term = penalty.term(D, x, fake)
            found.append(torch.stack([term, *_norms(term, D)]))
        return torch.stack(found).mean(0)

    def _norms(term, network):
        gradients = torch.autograd.grad(term, [network.first.weight, network.last.weight])
        return [one.flatten() @ torch.linspace(1, 2, one.numel(), dtype=torch.float64) for one in gradients]

    limit = exact(weight=2.0).term(D, x, fake)
    torch.testing.assert_close(extrapolated(value), torch.stack([limit, *_norms(limit, D)]), rtol=1e-7, atol=1e-9)


def gan_with(penalty, loss=NonSaturating, **settings):
    return tiny_gan(Case(loss, penalty), **settings)


PARTIAL = {"noise": 0.3, "weight": 5.0, "share": 0.5, "every": 2}


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_plain_loop(share):
    """Every second update has it, on a part of the batch, at twice the weight."""
    settings = PARTIAL | {"share": share}
    gan, loop = (gan_with(lambda: ApproximateR1R2(**settings)) for _ in range(2))
    train(gan, strategies.detach, 5)
    G, D, reals, draw = loop.generator, loop.discriminator, real_batches(), stream(3, "approximate r1 and r2")
    for i in range(5):
        x, z = next(reals), loop.sample().values
        fake = G(z)
        loss = loop.loss.d_loss(D(x), D(fake.detach()))
        if i % 2 == 0:
            for one in (x, fake.detach()):
                near = one + 0.3 * torch.randn(one.shape, generator=draw, dtype=torch.float64)
                used = slice(None) if share == 1 else [0, 2, 4]
                loss = loss + 2 * 5.0 * (D(one[used]) - D(near[used])).square().mean()
        descend(loop.optimizer_d, loss)
        descend(loop.optimizer_g, loop.loss.g_loss(None, D(fake)))
    torch.testing.assert_close(state(gan), state(loop), rtol=1e-9, atol=1e-11)


def test_centring_is_a_plain_loop():
    gan, loop = (gan_with(lambda: Centring(weight=2.0), RpGAN) for _ in range(2))
    train(gan, strategies.detach, 5)
    G, D, reals = loop.generator, loop.discriminator, real_batches()
    for _ in range(5):
        x, fake = next(reals), G(loop.sample().values)
        real_scores, fake_scores = D(x), D(fake.detach())
        centre = torch.cat([real_scores, fake_scores]).mean()
        descend(loop.optimizer_d, nn.functional.softplus(fake_scores - real_scores).mean() + 2.0 * centre**2)
        descend(loop.optimizer_g, nn.functional.softplus(D(x) - D(fake)).mean())
    torch.testing.assert_close(state(gan), state(loop), rtol=1e-9, atol=1e-11)


CASES = {
    "r1": lambda: ApproximateR1(**PARTIAL),
    "r1r2": lambda: ApproximateR1R2(**PARTIAL),
    "centring": lambda: Centring(weight=2.0),
}


@pytest.mark.slow
def test_three_processes_are_one(tmp_path):
    """Of shares of two samples, half of which are used; at places each with a score of its own."""
    cases = {name: (Case(NonSaturating, penalty), strategies.joint) for name, penalty in CASES.items()}
    cases["maps"] = (on_places("nonsaturating", penalty=CASES["r1r2"]), strategies.joint)
    assert_the_same(cases, 3, tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_parts_of_a_batch_are_the_whole(name):
    whole, parts = (train(gan_in_parts(count, Case(NonSaturating, CASES[name])), strategies.joint) for count in (1, 4))
    torch.testing.assert_close(whole, parts, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("strategy", every_strategy(but=ZERO_SUM))
def test_every_strategy_has_them(strategy):
    """With weights of 0 it is the strategy without them, whatever it does with their terms."""
    penalties = (NoPenalty, lambda: ApproximateR1R2(weight=0), lambda: Centring(weight=0))
    ends = [train(gan_with(penalty, Minimax), STRATEGIES[strategy], 2, d_steps=2) for penalty in penalties]
    for one in ends[1:]:
        torch.testing.assert_close(one, ends[0], rtol=1e-7, atol=1e-8)


def test_a_compiled_run_of_packs_is_allowed():
    made = build(composed(*NARROW, "penalty=[approx_r1r2,centring]", "pack=2", "accumulate=2", "generator.batch_norm=false"))
    iterate(made, 2)
    assert 0 < made.gan.meter.so_far()["loss/penalty"] < 1e3
    check(composed(*NARROW, "device=cpu", "penalty=[approx_r1r2,centring]", "compile=true"))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["penalty=approx_r1", "augment=diffaugment"], "penalty.approx_r1 "),
        (["penalty=approx_r1", "penalty.approx_r1.noise=0"], "penalty.approx_r1.noise "),
        (["penalty=approx_r2", "penalty.approx_r2.share=1.5"], "penalty.approx_r2.share "),
        (["penalty=approx_r1r2", "loss=began", "discriminator=began"], "penalty.approx_r1r2 "),
        (["penalty=centring", "loss=began", "discriminator=began"], "penalty.centring "),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(overrides, said):
    with pytest.raises(UserError, match=said):
        check(composed(*overrides))
