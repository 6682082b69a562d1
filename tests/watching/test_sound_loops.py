"""Sound loops are named, with their trace, and without a fault; watching changes no bit of them."""

import pytest
import torch

import ganexp
from tests.thinned import thinned
from tests.watching.loops import SOUND


def watched(make, iterations=2, **kwargs):
    _, step = make()
    with ganexp.watch(**kwargs) as report:
        for _ in range(iterations):
            step()
    return report


@pytest.mark.parametrize("name", thinned(SOUND, 6))
def test_named(name):
    make, rule, trace, steps, checked, iterations = SOUND[name]
    report = watched(make, iterations)
    assert (report.rule, report.faults) == (rule, []), str(report)
    assert (report.identified.d_steps, report.identified.g_steps) == steps
    if trace:
        assert report.trace == trace
    assert report.checked.startswith("checked") == checked, report


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.slow
def test_the_same_with_players_given(name):
    make, rule, _, _, _, iterations = SOUND[name]
    p, step = make()
    networks = getattr(p, "networks_g", p.G), getattr(p, "networks_d", p.D)
    with ganexp.watch(*networks, p.og, getattr(p, "optimizers_d", p.od)) as report:
        for _ in range(iterations):
            step()
    assert (report.rule, report.faults) == (rule, []), str(report)


@pytest.mark.parametrize("name", thinned(SOUND, 11))
def test_not_a_bit_is_changed(name):
    def end(watch):
        p, step = SOUND[name][0]()
        torch.manual_seed(1)
        if watch:
            with ganexp.watch():
                step(), step()
        else:
            step(), step()
        step()
        optimizers = [one for one in vars(p).values() if isinstance(one, torch.optim.Optimizer)]
        return [q for one in optimizers for group in one.param_groups for q in group["params"]], torch.get_rng_state()

    (plain, stream), (report, same) = end(False), end(True)
    assert all(torch.equal(a, b) for a, b in zip(plain, report, strict=True))
    assert torch.equal(stream, same)
