"""Runs that take a fraction of a second, in this process."""

import json

from ganexp import build
from ganexp.logging import Logger
from tests.composing import composed

SMALL = [
    *("dataset=fake", "dataset.image_size=4", "dataset.n=23", "batch_size=5", "latent_dim=3"),
    *("generator=mlp", "generator.width=8", "generator.depth=1"),
    *("discriminator=mlp", "discriminator.width=8", "discriminator.depth=1"),
    *("log_every=4", "sample_every=7", "checkpoint_every=3", "wandb.mode=disabled", "device=cpu"),
]


class Interrupting(Logger):
    """Interrupts a run, as Ctrl-C does, after some more iterations."""

    def __init__(self, iterations):
        self.left = iterations

    def tick(self):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


def small_run(folder, *overrides, checkpoint=None):
    return build(composed(*SMALL, *overrides), folder, checkpoint=checkpoint)


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
