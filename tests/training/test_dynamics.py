"""The spectrum along a run: it is in the rows, and changes nothing."""

import itertools
from dataclasses import replace

import torch

from ganexp import strategies
from ganexp.networks import MLPDiscriminator
from ganexp.training import Dynamics
from tests.tiny import CASES, state, tiny_gan, tiny_trainer


def rows_and_state(*, watched):
    trainer = tiny_trainer(strategy=strategies.detach, iterations=4)
    rows = []
    if watched:
        trainer.callbacks.append(Dynamics(2, count=2, products=100))
    watch = trainer.watch

    def kept():
        rows.append(watch())
        return rows[-1]

    trainer.watch = kept
    trainer.fit()
    return rows, state(trainer.gan)


def test_rows_have_the_spectrum_and_the_run_is_the_same():
    rows, watched = rows_and_state(watched=True)
    _, plain = rows_and_state(watched=False)
    assert all(itertools.starmap(torch.equal, zip(watched, plain, strict=True)))
    assert [any(key.startswith("dynamics/") for key in row) for row in rows] == [False, True, False, True]
    row = rows[-1]
    assert row["dynamics/d_smallest"] <= row["dynamics/d_largest"]
    assert 0 <= row["dynamics/rotation"] <= 1
    reals = [value for key, value in row.items() if key.startswith("dynamics/real_")]
    assert row["dynamics/smallest_real"] == min(reals)


def test_at_least_one_pack_is_looked_at():
    case = replace(CASES["nonsaturating"], discriminator=lambda: MLPDiscriminator((4,), width=5, depth=2))
    trainer = tiny_trainer(gan=tiny_gan(case, pack=2), iterations=1)
    trainer.callbacks.append(Dynamics(1, count=2, products=100, samples=1))
    trainer.fit()
    assert trainer.last_row["dynamics/d_largest"] > 0
