"""ganexp's own strategies, watched from outside, are named as themselves, or as what they do beyond steps."""

import itertools

import pytest
import torch

import ganexp
from ganexp import strategies
from ganexp.losses import Minimax
from ganexp.networks import MLPDiscriminator, MLPGenerator

THEMSELVES = ["detach", "retain_graph", "reuse_z", "g_first", "joint", "resample", "g_first_resample"]
NAMED = {
    **{name: getattr(strategies, name) for name in THEMSELVES},
    "one_stage": strategies.OneStage(),
    "extragradient": strategies.Extragradient(),
    "past_extragradient": strategies.PastExtragradient(),
}
DIFFERENTIATE = ("Competitive", "Consensus", "Drift", "FollowTheRidge", "Hamiltonian", "Jare", "Lead", "Symplectic")


def watched(strategy, iterations=3, **steps):
    torch.manual_seed(0)
    g, d = MLPGenerator(4, (2,), width=8), MLPDiscriminator((2,), width=8)
    optimizers = [torch.optim.SGD(one.parameters(), lr=1e-2) for one in (g, d)]
    gan = ganexp.GAN(g, d, Minimax(), *optimizers, ganexp.Prior(4), batch_size=8)
    reals = (ganexp.Batch(torch.randn(8, 2)) for _ in itertools.count())
    with ganexp.watch(g, d, *optimizers) as seen:
        for _ in range(iterations):
            strategy(gan, reals, **{"d_steps": 1, "g_steps": 1, **steps})
    return seen


@pytest.mark.parametrize("name", NAMED)
def test_named_as_itself(name):
    seen = watched(NAMED[name])
    assert (seen.rule, {one.kind for one in seen.faulty} - {"host_waits"}) == (name, set()), seen
    if "extragradient" not in name:
        assert seen.difference < 1e-4, seen.checked


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{"d_steps": 3}, {"g_steps": 2}])
@pytest.mark.parametrize("name", THEMSELVES)
def test_steps_are_counted(name, steps):
    seen = watched(NAMED[name], **steps)
    assert (seen.rule, seen.found.d_steps, seen.found.g_steps) == (name, steps.get("d_steps", 1), steps.get("g_steps", 1)), seen
    assert seen.difference < 1e-4, seen.checked


@pytest.mark.parametrize("name", DIFFERENTIATE)
def test_gradients_of_gradients_are_told_and_not_named(name):
    seen = watched(getattr(strategies, name)())
    assert seen.rule is None
    assert "differentiates gradients" in seen.found.why


@pytest.mark.parametrize("name", ["AlexGDA", "RungeKutta", "Unrolled"])
def test_no_wrong_name_is_given(name):
    strategy = getattr(strategies, name)
    assert watched(strategy()).rule is None


def test_a_rule_that_the_weights_do_not_follow_is_not_named():
    """G's gradient is doubled behind the trace's back."""

    def doubled(gan, reals, *, d_steps, g_steps):
        x, fake = next(reals), gan.generate(gan.sample())
        gan.update_d(gan.d_loss(x, fake.detach()))
        g = gan.g_loss(x, fake)
        gan.update_g(g, gradients=tuple(2 * one for one in torch.autograd.grad(g.value, gan.g_parameters)))

    seen = watched(doubled)
    assert (seen.rule, seen.found.nearest) == (None, "detach")
    assert seen.difference > 0.4
