"""Each field of a checkpoint, changed in every way: refused in one sentence that changes nothing, or trained on with."""

import copy
import os
import random

import pytest
import torch

from ganexp import build
from ganexp.training import CheckpointError, checkpoint
from tests.composing import composed
from tests.small_runs import BEGAN, SMALL, assert_same, state
from tests.tiny import iterate

SHARE = 0.03 * float(os.environ.get("GANEXP_EXAMPLES", "1"))
"""How much of all that could be tried is, always the same; GANEXP_EXAMPLES=30 is nearly everything."""
GONE = object()


def spread(tensor):
    return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)


def transposed(tensor):
    return tensor.flatten()[: tensor.numel()].reshape(tensor.shape[::-1]).permute([*range(tensor.dim())][::-1])


PLAIN = [GONE, None, True, -1, 0, 3, 10**30, 10**5000, -0.5, float("nan"), float("inf"), "x", "x" * 50_000, [], {}, [[1]]]
PLAIN += [
    {"a": 1},
    {1: 2},
    torch.zeros(3),
    torch.zeros(()),
    torch.zeros(2, 0),
    torch.tensor(float("nan")),
    torch.ones(2).to_sparse(),
]
OF_TENSORS = [
    lambda t: t.to(torch.float64) if t.dtype != torch.float64 else t.float(),
    lambda t: t.to(torch.int64),
    lambda t: torch.full_like(t, float("nan")) if t.is_floating_point() else torch.full_like(t, -1),
    lambda t: torch.full_like(t, 200),
    lambda t: t.unsqueeze(0),
    lambda t: t.flatten()[:-1],
    lambda t: t.to(torch.complex64),
    lambda t: t.clone().requires_grad_() if t.is_floating_point() else t,
    spread,
    transposed,
]


def places(value, path=()):
    """Yield the path of every value inside, with what is there."""
    if path:
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def tampered(state, path, value):
    changed = copy.deepcopy(state)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    if value is GONE:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return changed


def saved(trainer):
    """Return what a file of the run's state would hold."""
    return checkpoint.stamped(trainer.state_dict(), trainer.checkpoints.described)


def refusal(kind, attempt):
    """Return what an attempt is refused with, or nothing if it is not."""
    try:
        attempt()
    except kind as error:
        return str(error)
    return None


CASES = {
    "adam": SMALL,
    "wrappers": [*SMALL, "average.decay=0.9", "wrapper=[lookahead]", "wrapper.lookahead.every=2", "optimizer=optimistic_adam"],
    "penalty": [*SMALL, "loss=wgan_gp", "d_steps=2", "optimizer=negative_momentum", "average=none"],
    "buffers": [*BEGAN, "optimizer=rmsprop", "average=none"],
}


@pytest.mark.parametrize("case", ["adam", *(pytest.param(case, marks=pytest.mark.slow) for case in [*CASES][1:])])
def test_a_tampered_field_is_refused_and_changes_nothing_or_trains(case, tmp_path):
    path = tmp_path / "tampered.pt"
    trainer = build(composed(*CASES[case], "iterations=1000000"))
    iterate(trainer, 3)
    genuine = copy.deepcopy(saved(trainer))
    chance = random.Random(case)
    refused = 0
    for place, value in list(places(genuine)):
        if place[0] == "config" and len(place) > 1:
            continue  # which is compared with what is built, in the test below
        changes = [*PLAIN, *([change(value) for change in OF_TENSORS] if isinstance(value, torch.Tensor) else [])]
        for change in chance.sample(changes, min(len(changes), max(1, round(SHARE * len(changes))))):
            torch.save(tampered(genuine, place, change), path)
            before = copy.deepcopy(state(trainer))
            sentence = refusal(CheckpointError, lambda: trainer.load_state_dict(checkpoint.load(path)["run"]))
            if sentence:
                refused += 1
                assert len(sentence.splitlines()) == 1
                assert len(sentence) < 500
                assert_same(state(trainer), before)
            else:
                iterate(trainer)
                trainer.load_state_dict(copy.deepcopy(genuine["run"]))
    assert refused > 50


GROWN = {
    "a copy less": ("slow", lambda kept: kept[:-1]),
    "a copy of another shape": ("slow", lambda kept: [kept[0].t(), *kept[1:]]),
    "copies of another type": ("slow", lambda kept: [tensor.float() for tensor in kept]),
    "a copy that is not finite": ("slow", lambda kept: [kept[0] / 0, *kept[1:]]),
    "numbers for copies": ("slow", lambda kept: [0.5 for _ in kept]),
    "no list": ("slow", lambda kept: kept[0]),
}


def test_what_a_new_run_does_not_have_yet_is_compared_with_its_parameters():
    settings = [*CASES["adam"], "wrapper=[lookahead]", "wrapper.lookahead.every=2", "precision=fp64", "iterations=10"]
    trained, new = build(composed(*settings)), build(composed(*settings))
    iterate(trained)
    genuine = trained.state_dict()
    for name, changed in GROWN.values():
        kept = genuine["step"]["strategy"][name]
        with pytest.raises(CheckpointError, match="does not fit this run"):
            new.load_state_dict(tampered(genuine, ("step", "strategy", name), changed(kept)))
    new.load_state_dict(genuine)
    assert_same(state(new), state(trained))


def test_a_replayed_buffer_of_another_size_ends_in_a_sentence():
    settings = [*CASES["adam"], "wrapper=[replay]", "wrapper.replay.share=0.5", "wrapper.replay.size=7", "iterations=10"]
    trained, new = build(composed(*settings)), build(composed(*settings))
    iterate(trained, 3)
    genuine = trained.state_dict()
    (kept,) = genuine["step"]["strategy"]["kept"]
    new.load_state_dict(tampered(genuine, ("step", "strategy", "kept"), [kept[:3]]))
    with pytest.raises(ValueError, match="the buffer of replay does not hold"):
        iterate(new)


def test_moments_in_another_layout_are_laid_out_like_their_parameters():
    """The numbers are the same, so the run is: in float32, to the last bit."""
    settings = [*CASES["adam"], "iterations=10"]
    plain, other = build(composed(*settings)), build(composed(*settings))
    iterate(plain)
    genuine = copy.deepcopy(plain.state_dict())
    moments = genuine["gan"]["optimizer_g"]["state"][0]
    moments["exp_avg"] = moments["exp_avg"].t().contiguous().t()
    other.load_state_dict(genuine)
    for trainer in (plain, other):
        iterate(trainer)
    assert_same(state(other)["gan"]["generator"], state(plain)["gan"]["generator"])


def test_two_moments_that_share_memory_in_the_file_do_not_in_the_run():
    trainer = build(composed(*CASES["adam"], "iterations=10"))
    iterate(trainer)
    genuine = copy.deepcopy(trainer.state_dict())
    moments = genuine["gan"]["optimizer_g"]["state"][0]
    moments["exp_avg_sq"] = moments["exp_avg"]
    trainer.load_state_dict(genuine)
    held = trainer.gan.optimizer_g.state[trainer.gan.optimizer_g.param_groups[0]["params"][0]]
    assert held["exp_avg"].data_ptr() != held["exp_avg_sq"].data_ptr()
