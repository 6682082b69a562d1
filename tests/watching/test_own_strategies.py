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
    seen = watched(NAMED[name])
    assert (seen.rule, seen.faults) == (name, []), seen
    assert seen.difference < 1e-4, seen.checked


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Minimax, NonSaturating, WGAN])
@pytest.mark.parametrize("name", [name for name, one in NAMED.items() if "zero_sum" not in one.needs])
def test_no_wrong_name_where_steps_are_small(name, loss):
    """With Adam at 2e-4, rounding hides some differences between rules."""
    seen = watched(NAMED[name], setting={"loss": loss, "optimizer": torch.optim.Adam, "lr": 2e-4})
    assert seen.rule in (name, None), seen
    assert seen.rule or name == "drift", seen


WRAPPED = {
    "latent_step": wrappers.LatentStep,
    "lookahead": partial(wrappers.Lookahead, every=1),
    "replay": partial(wrappers.Replay, size=8),
    "topk": partial(wrappers.TopK, gamma=0.5, every=1),
}


@pytest.mark.parametrize("inside", ["detach", "joint"])
@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_is_named_beside_the_strategy(name, inside):
    seen = watched(WRAPPED[name](NAMED[inside]))
    assert (seen.rule, seen.found.wrappers, seen.averaged) == (inside, (name,), set()), str(seen)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{"d_steps": 3}, {"g_steps": 2}])
@pytest.mark.parametrize("name", THEMSELVES)
def test_steps_are_counted(name, steps):
    seen = watched(NAMED[name], **steps)
    assert (seen.rule, seen.found.d_steps, seen.found.g_steps) == (name, steps.get("d_steps", 1), steps.get("g_steps", 1)), seen
    assert seen.difference < 1e-4, seen.checked


DIFFERENTIATE = tuple(name for name, one in NAMED.items() if one.differentiates_gradients)


def test_a_rule_with_other_settings_is_told_as_its_class():
    seen = watched(strategies.Consensus(gamma=0.5))
    assert (seen.rule, seen.found.candidates) == (None, DIFFERENTIATE)
    assert seen.checked.startswith("not told apart")
    seen = watched(strategies.Consensus(gamma=0.5), own={"half": strategies.Consensus(gamma=0.5)})
    assert (seen.rule, seen.found.candidates) == ("half", (*DIFFERENTIATE, "half"))
    assert seen.checked.startswith("checked: half, on the same weights")


def test_rules_that_rounding_hides_are_not_told_apart():
    """The first iteration of `lead` has no step before it, and is that of `joint`."""
    seen = watched(strategies.Lead(), iterations=1)
    assert seen.rule is None
    assert "joint and lead" in seen.checked


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
