"""What surrounds a loop: wrapped networks, compiled ones, players given or not, notebooks, and hooks that go away."""

import json
import sys

import pytest
import torch
from torch import nn

import ganexp
from ganexp.watching.seen import WatchedLoop
from tests.watching.broken import alternating
from tests.watching.loops import d_loss, g_loss, setting


def hooks():
    module, optim = torch.nn.modules.module, sys.modules["torch.optim.optimizer"]
    return (
        len(module._global_forward_hooks),
        len(module._global_forward_pre_hooks),
        len(optim._global_optimizer_pre_hooks),
        len(optim._global_optimizer_post_hooks),
        torch.autograd._engine_run_backward,
        torch.optim.Optimizer.__init__,
    )


def test_nothing_is_left_behind_even_by_a_loop_that_fails():
    before = hooks()
    p, step = alternating(setting(), fake_d=lambda fake: fake)
    with pytest.raises(RuntimeError), ganexp.watch():
        step()
    assert hooks() == before
    assert not p.D[0]._forward_hooks


class Wrapped(nn.Module):
    """Called as DistributedDataParallel calls what it wraps; its class has that name."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)


Wrapped.__name__ = "DistributedDataParallel"


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("wrap", [Wrapped, lambda one: torch.compile(one, backend="eager")], ids=["distributed", "compiled"])
def test_wrapped_networks_are_their_players(wrap, given):
    p = setting()
    networks = p.G, p.D
    p.G, p.D = wrap(p.G), wrap(p.D)
    _, step = alternating(p)
    with ganexp.watch(*(networks if given else ()), *((p.og, p.od) if given else ())) as seen:
        step(), step()
    assert (seen.rule, seen.trace, seen.faults) == ("detach", "z G r f' D+ f G+", []), str(seen)


def test_an_optimiser_that_is_made_while_watching_is_found():
    with ganexp.watch() as seen:
        _, step = alternating(setting())
        step(), step()
    assert seen.rule == "detach"


def test_some_of_the_players_alone_are_refused():
    with pytest.raises(TypeError, match="optimisers"):
        ganexp.watch(nn.Linear(1, 1))


def test_without_an_iteration_nothing_is_named():
    with ganexp.watch() as seen:
        pass
    assert (seen.rule, seen.trace, seen.faults) == (None, "", [])


def test_a_report_is_text_json_and_html():
    _, step = alternating(setting())
    with ganexp.watch() as seen:
        step(), step()
    assert isinstance(seen, WatchedLoop)
    shown = seen._repr_mimebundle_()
    assert shown["text/plain"] == str(seen)
    assert json.loads(json.dumps(shown["application/json"]))["rule"] == "detach"
    assert "<pre>" in shown["text/html"]


def test_costs_name_what_is_thrown_away():
    """The textbook loop fills D's gradients in G's step; with `inputs=`, it does not."""
    _, step = alternating(setting())
    with ganexp.watch() as seen:
        step(), step()
    assert [one.what for one in seen.costs if "thrown away" in one.remark] == ["bDG"]
    assert all(one.ms > 0 for one in seen.costs)


def test_operations_are_counted_as_in_closed_form():
    """Of the 9d + 3g of the textbook loop, d are thrown away: the gradients by D's weights in G's step."""
    p, step = alternating(setting())
    with ganexp.watch() as seen:
        step(), step()
    g, d = (2 * 8 * sum(one.weight.numel() for one in net if isinstance(one, nn.Linear)) for net in (p.G, p.D))
    first = 2 * 8 * p.D[0].weight.numel(), 2 * 8 * p.G[0].weight.numel()
    forward = g + 3 * d
    backward = 2 * (2 * d - first[0]) + 2 * d + (2 * g - first[1])  # no gradients by what is given
    assert sum(one.operations for one in seen.costs) == forward + backward
    assert sum(one.wasted for one in seen.costs) == d


NORMALIZED = {"new": nn.utils.parametrizations.spectral_norm, "old": nn.utils.spectral_norm}


@pytest.mark.parametrize("how", ["dropout", *NORMALIZED])
def test_networks_that_another_run_does_not_repeat_are_named_by_the_trace(how):
    p = setting(more=(nn.Dropout(0.5),) if how == "dropout" else ())
    if how in NORMALIZED:
        NORMALIZED[how](p.D[0])
        p.od = torch.optim.Adam(p.D.parameters(), 1e-3)
    _, step = alternating(p)
    with ganexp.watch() as seen:
        step(), step()
    assert (seen.rule, seen.difference, seen.faults) == ("detach", None, []), str(seen)
    assert seen.checked.startswith("not checked")


def test_clipped_gradients_are_told_and_do_not_cost_the_name():
    p = setting(torch.optim.SGD)

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        nn.utils.clip_grad_norm_(p.D.parameters(), 1e-3)
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    with ganexp.watch() as seen:
        step(), step()
    assert (seen.rule, seen.difference, seen.faults) == ("detach", None, []), str(seen)
    assert "clipping" in seen.checked
