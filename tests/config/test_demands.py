"""What a run is said to need, against formulas that are counted by hand."""

import logging
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from ganexp import build
from ganexp.config.assemble import networks_of
from ganexp.config.check import check
from ganexp.config.dry_run import Demands, counted
from ganexp.facts import UserError
from ganexp.training.execution import Machine
from tests.composing import composed


def test_operations_of_networks_that_can_be_counted_by_hand():
    generator = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    discriminator = nn.Sequential(nn.Linear(2, 7), nn.ReLU(), nn.Linear(7, 1), nn.Flatten(0))
    fake, g_flop = counted(generator.to("meta"), torch.zeros(1, 3, device="meta"))
    _, d_flop = counted(discriminator.to("meta"), fake.detach())
    asked = Demands(d_flop, g_flop)
    assert asked.g_flop == 2 * (3 * 5 + 5 * 2)
    assert asked.d_flop == 2 * (2 * 7 + 7 * 1)
    assert asked.flop(1, 2, 1) == 2 * 6 * asked.d_flop + 2 * asked.d_flop + 3 * asked.g_flop


def test_networks_whose_weights_no_memory_holds_are_refused_and_a_large_batch_is_not(monkeypatch):
    cfg = composed("device=cpu", "batch_size=1000000")
    plan = check(cfg)
    networks = networks_of(plan.choices, plan.facts)
    needed = 5 * 4 * sum(one.numel() for network in networks for one in network.parameters())
    for there in (needed - 1, needed):
        monkeypatch.setattr(Machine, "memory_bytes", there)
        with pytest.raises(UserError, match=r"lower generator\.width") if there < needed else nullcontext():
            check(cfg)


@pytest.mark.parametrize(("iterations", "heavy"), [(2500, False), (10**6, True)])
def test_a_run_that_is_much_for_a_cpu_says_so(iterations, heavy, caplog, tmp_path):
    cfg = composed(f"iterations={iterations}", "device=cpu", "logger=[]")
    with caplog.at_level(logging.WARNING):
        trainer = build(cfg, tmp_path)
    trainer.loggers[0].abandon()
    assert ("This is a lot for a CPU" in caplog.text) == heavy
