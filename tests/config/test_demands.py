"""What a run is said to need, against formulas that are counted by hand."""

import logging

import pytest
import torch
from torch import nn

from ganexp import build
from ganexp.config.check import check
from ganexp.config.dry_run import Demands, counted
from ganexp.config.schema import ConfigError
from tests.composing import composed


def test_operations_and_bytes_of_networks_that_can_be_counted_by_hand():
    generator = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    discriminator = nn.Sequential(nn.Linear(2, 7), nn.ReLU(), nn.Linear(7, 1), nn.Flatten(0))
    fake, g_bytes, g_flop = counted(generator.to("meta"), torch.zeros(1, 3, device="meta"))
    _, d_bytes, d_flop = counted(discriminator.to("meta"), fake.detach())
    asked = Demands(d_bytes, g_bytes, d_flop, g_flop)
    assert asked.g_flop == 2 * (3 * 5 + 5 * 2)
    assert asked.d_flop == 2 * (2 * 7 + 7 * 1)
    assert asked.g_bytes == 4 * (3 + 5)  # the input of each layer; tanh keeps its output, which is the next layer's input
    assert asked.d_bytes == 4 * (2 + 7)
    assert asked.least_bytes(10) == 10 * 2 * 36
    assert asked.flop(1, 2, 1) == 2 * 6 * asked.d_flop + 2 * asked.d_flop + 3 * asked.g_flop


def test_bytes_are_those_that_a_real_pass_keeps():
    kept = {}
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.LeakyReLU(), nn.Flatten(1), nn.Linear(8 * 36, 1))
    own = {parameter.data_ptr() for parameter in network.parameters()}

    def keep(tensor):
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = (tensor, tensor.untyped_storage().nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(torch.randn(2, 3, 8, 8))
    _, kept_bytes, _ = counted(network.to("meta"), torch.zeros(2, 3, 8, 8, device="meta"))
    assert kept_bytes == pytest.approx(sum(size for _, size in kept.values()), rel=0.02)


def test_a_batch_that_no_memory_holds_is_refused_with_the_figures():
    with pytest.raises(ConfigError, match=r"^batch_size=1000000 takes at least [\d,.]+ GiB .* too much for [\d,.]+ GiB"):
        check(composed("batch_size=1000000", "device=cpu"))
    with pytest.raises(ConfigError, match=r"^g_batch=1000000 takes at least [\d,.]+ GiB"):
        check(composed("g_batch=1000000", "strategy=resample", "device=cpu"))
    with pytest.raises(ConfigError, match=r"^batch_size=1000000 takes at least .*: choose less than \d{4,}, "):
        check(composed("batch_size=1000000", "device=cpu"), processes=4)
    check(composed("batch_size=1000000", "device=cpu", "dataset=ring", "generator=mlp", "discriminator=mlp"))


@pytest.mark.parametrize(("iterations", "heavy"), [(2500, False), (10**6, True)])
def test_a_run_that_is_much_for_a_cpu_says_so(iterations, heavy, caplog, tmp_path):
    cfg = composed(f"iterations={iterations}", "device=cpu", "logger=[]")
    with caplog.at_level(logging.WARNING):
        trainer = build(cfg, tmp_path)
    trainer.loggers[0].abandon()
    assert ("This is a lot for a CPU" in caplog.text) == heavy
