"""The plain loops are the algorithms that they are raced against: the same weights, at the cost that their names say."""

import sys
from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ganexp import build
from ganexp.compare import plain_loops
from ganexp.compare.plain_loops import images_of
from ganexp.compare.racing import Contender
from ganexp.instruments.counting import operations
from measuring import loops
from tests.composing import composed

SMALL = ("average=none", "dataset=fake", "dataset.image_size=16", "generator.width=2", "discriminator.width=2", "batch_size=4")
BEGAN = ("experiment=began", "schedule=constant", "strategy=detach", *SMALL)


def trainer_of(*overrides):
    return build(composed(*overrides))


def weights(trainer):
    return [p.detach().clone() for p in trainer.gan.generator.parameters()]


def test_textbook_and_lean_train_as_detach_does_at_its_cost():
    """All draw from torch's own stream here."""
    ends, counted = [], {}
    for loop in (None, plain_loops.textbook, plain_loops.lean):
        trainer = trainer_of(*SMALL, "precision=fp64")
        trainer.gan.prior.rng = torch.default_generator
        torch.manual_seed(7)
        step = loop(trainer.gan, images_of(trainer)) if loop else Contender.of(trainer).step
        for _ in range(3):
            step()
        ends.append(weights(trainer))
        counted[loop] = operations(step)
        if loop is None:
            trainer.gan.redundant_gradients = True
            counted["redundant"] = operations(step)
    assert counted[plain_loops.lean] == counted[None] < counted[plain_loops.textbook] == counted["redundant"]
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ends[0], ends[2], rtol=1e-9, atol=1e-10)


def test_the_plain_began_is_began(monkeypatch):
    by_hand, framework = (trainer_of(*BEGAN, "loss.lambda_k=0.3", "precision=fp64") for _ in range(2))
    latents = framework.gan.prior.rng.clone_state()
    step = loops.began(by_hand.gan, images_of(by_hand), lambda_k=0.3)
    monkeypatch.setattr(  # the loop draws from torch's own stream, so give it the framework's latents
        "torch.rand", lambda *size, **kwargs: torch.empty(size, **kwargs).uniform_(-1, 1, generator=latents) / 2 + 0.5
    )
    for _ in range(4):
        step()
        framework.step(framework.reals)
    torch.testing.assert_close(weights(by_hand), weights(framework), rtol=1e-9, atol=1e-12)


def test_the_plain_pix2pix_is_detach_on_sources():
    settings = [
        *("dataset=degraded", "dataset@dataset.of=fake", "dataset.of.image_size=16", "dataset.how=edges", "generator=unet"),
        *("generator.width=2", "generator.depth=2", "discriminator=patch", "discriminator.width=2", "discriminator.layers=1"),
        *("term=[l1]", "batch_size=4", "average=none", "precision=fp64"),
    ]
    by_hand, framework = (trainer_of(*settings) for _ in range(2))
    step, other = loops.pix2pix(by_hand.gan, iter(by_hand.reals.source)), Contender.of(framework).step
    for _ in range(3):
        step()
        other()
    assert operations(step) == operations(other)
    torch.testing.assert_close(weights(by_hand), weights(framework), rtol=1e-9, atol=1e-12)


class Launches(TorchDispatchMode):
    """Counts operations on tensors, each of which a GPU would launch."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def calls_and_launches(step):
    """Return how many functions of Python, and how many operations on tensors, a step calls."""
    for _ in range(3):
        step()
    with Launches() as launches:
        step()
    counted = Counter()
    sys.setprofile(lambda frame, event, _: counted.update([event]))
    try:
        step()
    finally:
        sys.setprofile(None)
    return counted["call"], launches.count


def test_an_eager_iteration_calls_no_more_of_python_than_a_plain_loop():
    """Where networks are small, this is what the framework costs; a GPU waits for it."""
    trainer = trainer_of("generator=mlp", "discriminator=mlp", *SMALL)
    ours, plain = (
        calls_and_launches(s) for s in (lambda: trainer.step(trainer.reals), plain_loops.lean(trainer.gan, images_of(trainer)))
    )
    assert ours[1] <= plain[1]
    assert ours[0] <= plain[0]
