"""Several processes evaluate together: figures are those of one, to the last bit, and what fails in one fails in all."""

import math
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from ganexp import build
from ganexp.distributed.processes import Processes
from ganexp.facts import UserError
from ganexp.training.callbacks import evaluation
from tests.composing import composed
from tests.distributed.forks import several

RING = ["experiment=ring", "dataset.n=500", "generator.width=8", "discriminator.width=8", "batch_size=6"]
DIGITS = ["dataset.image_size=16", "generator=mlp", "discriminator=mlp", "batch_size=6", "conditional=true"]
CASES = {
    "points": (*RING, "measure=[sliced_wasserstein,modes,density_coverage,fid]"),
    "images": (*DIGITS, "measure=[density_coverage,sliced_wasserstein]", "evaluation.features=[raw,./halves.ts]"),
}


class Halves(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images[:, :, ::2].flatten(1)


@pytest.fixture(autouse=True)
def _many_batches(monkeypatch, tmp_path):
    monkeypatch.setattr(evaluation, "BATCH", 9)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Halves()).save("halves.ts")


def trainer_of(name, processes):
    torch.set_num_threads(1)
    settings = ("device=cpu", "logger=[]", "evaluate_every=1", "evaluation.samples=61", "sample_every=0")
    return build(composed(*CASES[name], *settings), processes=processes)


def callback_of(trainer):
    (found,) = (one for one in trainer.callbacks if isinstance(one, evaluation.Evaluation))
    return found


def figures(processes):
    made = {name: trainer_of(name, processes) for name in CASES}
    return {name: callback_of(trainer)(trainer) for name, trainer in made.items()}


@pytest.mark.slow
def test_figures_are_those_of_one_process(tmp_path):
    alone = figures(Processes())
    assert all(len(one) >= 3 for one in alone.values())
    assert {"eval/density", "eval/density/halves"} < {*alone["images"]}
    assert [*several(3, figures, tmp_path)] == [alone] + [{name: {} for name in CASES}] * 2


def breaking(processes):
    """Evaluate with samples that are not finite, which only the last process generates, and then finite ones."""
    trainer = trainer_of("points", processes)
    callback, calls = callback_of(trainer), []
    see = callback.evaluator.extract

    def seen(samples):
        calls.append(len(samples))
        return see(replace(samples, values=samples.values * math.nan) if processes.rank == 1 and len(calls) == 2 else samples)

    callback.evaluator.extract = seen
    with pytest.raises(UserError, match="the generated samples are not finite"):
        callback.figures(trainer.gan.generator, trainer.gan.prior)
    return [*calls], callback(trainer)


@pytest.mark.slow
def test_what_fails_in_one_process_fails_in_all_which_then_go_on(tmp_path):
    (calls, row), (others, nothing) = several(2, breaking, tmp_path)
    assert calls == others == [9, 9]
    assert row == figures(Processes())["points"]
    assert nothing == {}


def test_a_bug_in_one_process_is_told_with_its_traceback(tmp_path):
    def work(item):
        raise KeyError("bug") if item == 3 else ValueError("later")

    def told(processes):
        with pytest.raises(KeyError, match="bug") as error:
            [*processes.each(lambda item: work(item) if item >= 3 else item, range(8))]
        return error.value.__notes__[0]

    for note in several(2, told, tmp_path):
        assert note.startswith("In process 1:\nTraceback")
        assert "in work" in note
