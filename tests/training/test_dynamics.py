"""The spectrum along a run: it is in the rows, and changes nothing."""

import itertools
from dataclasses import replace

import numpy as np
import torch

from ganexp import strategies
from ganexp.dynamics import Spectrum
from ganexp.networks import MLPDiscriminator
from ganexp.training import Dynamics
from ganexp.training.callbacks.dynamics import figures
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


def test_a_pair_of_which_the_lower_half_was_found_is_in_the_row():
    """As by Arnoldi iterations that are asked for one eigenvalue, or for the first of the last pair."""
    row = figures(Spectrum(np.array([3 + 2j, 3 - 2j, -1 - 1j]), -1.0, 0.5, d=(0.0, 1.0), g=(0.0, 1.0)))
    assert [row[f"dynamics/{part}_{number}"] for number in (1, 2) for part in ("real", "imag")] == [3, 2, -1, 1]
    assert row["dynamics/smallest_real"] == -1
    assert "dynamics/real_3" not in row


def test_at_least_one_pack_is_looked_at():
    case = replace(CASES["nonsaturating"], discriminator=lambda: MLPDiscriminator((4,), width=5, depth=2))
    trainer = tiny_trainer(gan=tiny_gan(case, pack=2), iterations=1)
    trainer.callbacks.append(Dynamics(1, count=2, products=100, samples=1))
    trainer.fit()
    assert trainer.last_row["dynamics/d_largest"] > 0
