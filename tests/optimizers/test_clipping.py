"""Clipped gradients: torch's own function in a plain loop, every strategy, and no bit changed where nothing is too long."""

import math

import pytest
import torch

from ganexp import build, strategies
from ganexp.distributed.processes import Processes
from ganexp.optimizers.ownership import clip
from tests.composing import composed
from tests.small_runs import NARROW
from tests.tiny import CASES, STRATEGIES, real_batches, state, tiny_gan, train


def clipped(max_norm, loss="nonsaturating"):
    gan = tiny_gan(CASES[loss], fused=True)
    gan._d.max_norm = gan._g.max_norm = max_norm
    return gan


def test_a_run_is_a_plain_loop_with_torchs_clipping():
    gan, max_norm, cut = tiny_gan(CASES["nonsaturating"], fused=True), 0.05, 0
    G, D, softplus = gan.generator, gan.discriminator, torch.nn.functional.softplus
    reals = real_batches()
    for _ in range(6):
        x, fake = next(reals), G(gan.sample().values)
        gan.optimizer_d.zero_grad()
        (softplus(-D(x)).mean() + softplus(D(fake.detach())).mean()).backward()
        cut += torch.nn.utils.clip_grad_norm_(D.parameters(), max_norm) > max_norm
        gan.optimizer_d.step()
        gan.optimizer_g.zero_grad()
        softplus(-D(fake)).mean().backward()
        cut += torch.nn.utils.clip_grad_norm_(G.parameters(), max_norm) > max_norm
        gan.optimizer_g.step()
    assert cut > 0
    torch.testing.assert_close(train(clipped(max_norm), strategies.detach, 6), state(gan), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("strategy", "loss"), [("detach", "began"), ("joint", "hinge"), ("one_stage", "hinge")])
def test_no_bit_changes_where_nothing_is_too_long(strategy, loss):
    free = train(clipped(None, loss), STRATEGIES[strategy], 6)
    for max_norm in (math.inf, 1e6):
        assert all(map(torch.equal, free, train(clipped(max_norm, loss), STRATEGIES[strategy], 6)))
    assert not all(map(torch.equal, free, train(clipped(0.01, loss), STRATEGIES[strategy], 6)))


def test_clipping_leaves_what_was_given_and_what_is_not_there():
    given = (torch.tensor([3.0, 0.0]), None, torch.tensor(4.0))
    found = clip(given, 1.0)
    assert found[1] is None
    torch.testing.assert_close([found[0], found[2]], [torch.tensor([0.6, 0.0]), torch.tensor(0.8)], rtol=1e-6, atol=0)
    assert given[0].tolist() == [3, 0]


class Both(Processes):
    """Stands for two processes with the same gradients."""

    def sum(self, gradients):
        return tuple(None if g is None else 2 * g for g in gradients)


def test_the_sum_over_processes_is_clipped_and_rows_show_its_norm():
    gan = clipped(0.05)
    gan.processes = Both()
    gan.meter.begin(keep_gradients=True)
    gan._d.optimizer = torch.optim.SGD(gan.discriminator.parameters(), lr=1.0)
    x, fake = next(real_batches()), gan.generate(gan.sample()).detach()
    before = [p.detach().clone() for p in gan.discriminator.parameters()]
    d = gan.d_loss(x, fake)
    whole = torch.nn.utils.get_total_norm(torch.autograd.grad(d.value, gan.d_parameters, retain_graph=True))
    gan.update_d(d)
    moved = torch.nn.utils.get_total_norm([a - b for a, b in zip(before, gan.d_parameters, strict=True)])
    assert gan.meter.read({})["grad_norm/d"] == pytest.approx(2 * whole.item(), rel=1e-12)
    assert 2 * whole.item() > 0.1
    assert moved.item() == pytest.approx(0.05, rel=1e-4)


def test_the_key():
    assert build(composed(*NARROW, "clip_gradients=0.5")).gan._g.max_norm == 0.5
    assert build(composed(*NARROW)).gan._d.max_norm is None
