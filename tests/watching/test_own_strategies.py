"""ganexp's own strategies, watched from outside, are named as themselves, or as what they do beyond steps."""

from functools import partial

import pytest
import torch

from ganexp import strategies, wrappers
from ganexp.losses import WGAN, Minimax, NonSaturating
from tests.thinned import thinned
from tests.watching.own import NAMED, THEMSELVES, watched


@pytest.mark.parametrize("name", thinned(NAMED, 3))
def test_named_as_itself(name):
    report = watched(NAMED[name])
    assert (report.rule, report.faults) == (name, []), report
    assert report.difference < 1e-4, report.checked


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Minimax, NonSaturating, WGAN])
@pytest.mark.parametrize("name", [name for name, one in NAMED.items() if "zero_sum" not in one.needs])
def test_no_wrong_name_where_steps_are_small(name, loss):
    """With Adam at 2e-4, rounding hides some differences between rules."""
    report = watched(NAMED[name], setting={"loss": loss, "optimizer": torch.optim.Adam, "lr": 2e-4})
    assert report.rule in (name, None), report
    assert report.rule or name == "drift", report


WRAPPED = {
    "latent_step": wrappers.LatentStep,
    "lookahead": partial(wrappers.Lookahead, every=1),
    "replay": partial(wrappers.Replay, size=8),
    "topk": partial(wrappers.TopK, gamma=0.5, every=1),
}


@pytest.mark.parametrize("inside", ["detach", "joint"])
@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_is_named_beside_the_strategy(name, inside):
    report = watched(WRAPPED[name](NAMED[inside]))
    assert (report.rule, report.identified.wrappers, report.averaged) == (inside, (name,), set()), str(report)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{"d_steps": 3}, {"g_steps": 2}])
@pytest.mark.parametrize("name", THEMSELVES)
def test_steps_are_counted(name, steps):
    report = watched(NAMED[name], **steps)
    identified = report.identified
    assert (identified.name, identified.d_steps, identified.g_steps) == (name, steps.get("d_steps", 1), steps.get("g_steps", 1))
    assert report.difference < 1e-4, report.checked


@pytest.mark.parametrize("begin", [0, pytest.param(3, marks=pytest.mark.slow), 8])
@pytest.mark.parametrize("name", ["joint", "one_stage"])
def test_simultaneous_rules_with_further_steps_have_turns_wherever_watching_begins(name, begin):
    """D moves last in an iteration and first in the next, so that no change of players tells where one begins."""
    report = watched(NAMED[name], d_steps=3, begin=begin)
    assert (report.rule, report.identified.d_steps, report.turns, report.iterations) == (name, 3, 2, 3), report
    assert report.difference < 1e-4, report.checked


DIFFERENTIATE = tuple(name for name, one in NAMED.items() if one.differentiates_gradients)


def test_a_rule_with_other_settings_is_told_as_its_class():
    report = watched(strategies.Consensus(gamma=0.5))
    assert (report.rule, report.identified.candidates) == (None, DIFFERENTIATE)
    assert report.checked.startswith("not told apart")
    report = watched(strategies.Consensus(gamma=0.5), own={"half": strategies.Consensus(gamma=0.5)})
    assert (report.rule, report.identified.candidates) == ("half", (*DIFFERENTIATE, "half"))
    assert report.checked.startswith("checked: half, on the same weights")


def test_rules_that_rounding_hides_are_not_told_apart():
    """The first iteration of `lead` has no step before it, and is that of `joint`."""
    report = watched(strategies.Lead(), iterations=1)
    assert report.rule is None
    assert "joint and lead" in report.checked


def test_a_rule_that_the_weights_do_not_follow_is_not_named():
    """G's gradient is doubled behind the trace's back."""

    def doubled(gan, reals, *, d_steps, g_steps):
        x, fake = next(reals), gan.generate(gan.sample())
        gan.update_d(gan.d_loss(x, fake.detach()))
        g = gan.g_loss(x, fake)
        gan.update_g(g, gradients=tuple(2 * one for one in torch.autograd.grad(g.value, gan.g_parameters)))

    report = watched(doubled)
    assert (report.rule, report.identified.nearest) == (None, "detach")
    assert report.difference > 0.4
