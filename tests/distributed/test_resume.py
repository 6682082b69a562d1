"""Whole runs in several processes: what is written is what one process writes, and either can go on from it."""

import pytest
import torch

from ganexp import build
from ganexp.distributed.processes import Processes
from tests.composing import composed
from tests.distributed.forks import several
from tests.small_runs import SMALL, untimed

RUN = [one for one in SMALL if not one.startswith(("dataset", "generator", "discriminator"))]
RUN += ["batch_size=12", "precision=fp64", "log_every=2", "sample_every=5", "checkpoint_every=5"]
MLP = [one for one in SMALL if one.startswith(("generator", "discriminator"))]
FAKE = ["dataset=fake", "dataset.image_size=16", "dataset.n=23"]
LAZY = ["penalty=gradient_penalty", "penalty.gradient_penalty.every=2", "d_steps=2", "clip_gradients=0.1", "schedule=linear"]
LOOKAHEAD = ["wrapper=[lookahead]", "wrapper.lookahead.every=3"]
CASES = {
    "much": [*MLP, *LAZY, *LOOKAHEAD, "dataset=digits", "conditional=true", "flip=true", "loss=hinge", "average.decay=0.9"],
    "augmented": [*MLP, *FAKE, "augment=diffaugment", "accumulate=2", "feed=streamed", "workers=0", "loss=rpgan"],
    "ada": [*MLP, *FAKE, "augment=ada", "augment.images=500", "pack=2", "penalty=dragan"],
    "batch norm": [*FAKE, "generator=dcgan", "generator.width=4", "discriminator=dcgan", "discriminator.width=4"],
}


def run(folder, case, processes, *, iterations=10, checkpoint=None):
    torch.set_num_threads(1)
    cfg = composed(*RUN, *CASES[case], f"iterations={iterations}")
    trainer = build(cfg, folder, checkpoint=checkpoint, processes=processes)
    return trainer.fit()


def left(folder):
    """Return the weights of the last checkpoint and the rows, without what takes time."""
    state = torch.load(folder / "checkpoints" / "last.pt")["run"]
    tensors = {name: state["gan"][name] for name in ("generator", "discriminator", "prior")} | {
        "average": state["step"]["average"]
    }
    return tensors, untimed(folder)


def assert_alike(folder, other):
    (tensors, rows), (others, other_rows) = left(folder), left(other)
    torch.testing.assert_close(tensors, others, rtol=1e-10, atol=1e-10)
    assert len(rows) == len(other_rows)
    for row, its in zip(rows, other_rows, strict=True):
        pictures = {key for key, value in row.items() if isinstance(value, str)}
        assert {key: row[key] for key in pictures} == {key: its[key] for key in pictures}
        assert {k: v for k, v in row.items() if k not in pictures} == pytest.approx(
            {k: v for k, v in its.items() if k not in pictures}, rel=1e-8, abs=1e-10
        )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_run_is_that_of_one_process_and_any_number_can_go_on(case, tmp_path):
    run(tmp_path / "alone", case, Processes())
    several(2, lambda processes: run(tmp_path / "two", case, processes), tmp_path / "of two")
    assert_alike(tmp_path / "two", tmp_path / "alone")
    if case == "much":  # which has every state
        half = tmp_path / "two" / "checkpoints" / "iteration_000000005.pt"
        several(3, lambda processes: run(tmp_path / "two", case, processes, checkpoint=half), tmp_path / "of three")
        assert_alike(tmp_path / "two", tmp_path / "alone")
        run(tmp_path / "two", case, Processes(), checkpoint=half)
        assert_alike(tmp_path / "two", tmp_path / "alone")
