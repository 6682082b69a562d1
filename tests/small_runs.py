"""Runs that take a fraction of a second, in this process, and what they leave."""

import json

import pytest
import torch

from ganexp import build
from ganexp.logging import Logger
from ganexp.strategies.base import as_strategy
from tests.composing import composed
from tests.tiny import iterate

SMALL = [
    *("dataset=fake", "dataset.image_size=4", "dataset.n=23", "batch_size=5", "latent_dim=3"),
    *("generator=mlp", "generator.width=8", "generator.depth=1"),
    *("discriminator=mlp", "discriminator.width=8", "discriminator.depth=1"),
    *("log_every=4", "sample_every=7", "checkpoint_every=3", "logger=[]", "device=cpu"),
]
NETWORKS = [one for one in SMALL if one.startswith(("generator", "discriminator"))]
CONVOLUTIONAL = [one for one in SMALL if one not in NETWORKS]
CONVOLUTIONAL += ["dataset.image_size=16", "generator.width=2", "discriminator.width=2"]
BEGAN = [*CONVOLUTIONAL, "loss=began", "generator=began", "discriminator=began"]
NARROW = ["generator.width=4", "discriminator.width=4", "batch_size=4", "latent_dim=3", "logger=[]", "device=cpu"]
"""The default's networks and data; tests of a GPU name it afterwards."""


class Interrupting(Logger):
    """Interrupts a run, as Ctrl-C does, after some more iterations."""

    def __init__(self, iterations):
        self.left = iterations

    def tick(self):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


class Rows(Logger):
    """Keeps what a run tells its loggers."""

    def __init__(self):
        self.rows, self.ticks, self.closed = [], 0, []

    def tick(self):
        self.ticks += 1

    def write(self, row):
        self.rows.append(row)

    def close(self, summary):
        self.closed.append(summary["state"])


def small_run(folder, *overrides, checkpoint=None):
    return build(composed(*SMALL, *overrides), folder, checkpoint=checkpoint)


def trained(folder, settings, iterations, *, resume=False, stop_after=None):
    """Train to `iterations`, or be killed by an exception after `stop_after`."""
    last = folder / "checkpoints" / "last.pt"
    made = build(composed(*settings, f"iterations={iterations}"), folder, checkpoint=last if resume else None, trust="tests")
    if stop_after:
        strategy = made.step.strategy

        def killed(*arguments, **counts):
            if made.iteration == stop_after:
                raise KeyboardInterrupt
            strategy(*arguments, **counts)

        for name in ("state_dict", "load_state_dict"):
            setattr(killed, name, getattr(strategy, name))
        made.step.strategy = as_strategy(killed)
        with pytest.raises(KeyboardInterrupt):
            made.fit()
    else:
        made.fit()
    return made


def assert_resumes(folder, settings, iterations, stop_after):
    """Assert that a killed run that goes on is the undisturbed one to the last bit, and return both."""
    whole = trained(folder / "whole", settings, iterations)
    trained(folder / "parts", settings, iterations, stop_after=stop_after)
    resumed = trained(folder / "parts", settings, iterations, resume=True)
    assert_same(state(resumed), state(whole))
    assert untimed(folder / "parts") == untimed(folder / "whole")
    return whole, resumed


def assert_never_waits(made):
    """Assert that iterations on a GPU wait for nothing of it: CUDA's debug mode raises where one would."""
    iterate(made, 10)  # until iterations of every turn are recorded
    try:
        torch.cuda.set_sync_debug_mode("error")
        iterate(made, 10)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def untimed(folder):
    """Return the rows without what a clock or a memory counter says."""
    measured = ("time/", "speed/", "memory/", "progress/wall_s")
    return [{key: value for key, value in row.items() if not key.startswith(measured)} for row in rows(folder)]


def state(made):
    return {key: value for key, value in made.state_dict().items() if key != "trained_s"}


def assert_same(a, b):
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    else:
        assert a == b
