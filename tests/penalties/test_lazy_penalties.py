"""A penalty that only some updates have: which, and how heavy."""

import pytest
import torch

from ganexp import strategies
from ganexp.batch import Batch
from ganexp.losses import Minimax, NonSaturating
from ganexp.penalties import R1
from ganexp.training import Step
from ganexp.training.cuda_graph import Recorded, reason_against
from ganexp.wrappers import WarmUp
from tests.composing import every_strategy
from tests.tiny import STRATEGIES, Case, real_batches, tiny_gan
from tests.training.tape import Tapes


class Noted(R1):
    """R1 that notes at which count of updates it was computed."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.seen = []

    def __call__(self, discriminator, x, fake):
        self.seen.append(self.passed["updates"])
        return super().__call__(discriminator, x, fake)


def lazy_gan(every, loss=NonSaturating):
    return tiny_gan(Case(loss, lambda: Noted(weight=4.0, every=every)))


@pytest.mark.parametrize("strategy", every_strategy())
def test_every_third_update_of_d_has_it(strategy):
    gan, reals = lazy_gan(3, Minimax), real_batches()
    function = STRATEGIES[strategy]
    for _ in range(4):
        function(gan, reals, d_steps=2, g_steps=1)
    assert gan.meter.updates["d"] == gan.penalty.passed["updates"] == 8
    assert set(gan.penalty.seen) == {0, 3, 6}
    if strategy in ("extragradient", "runge_kutta"):
        assert gan.penalty.seen == [0, 0, 3, 6, 6]  # the look ahead and the step that it prepares; a step of D's own
    elif strategy != "unrolled":
        assert gan.penalty.seen == [0, 3, 6]
        assert gan.meter.counts["loss/penalty"] == 3


def test_it_weighs_as_many_times_as_much_and_looking_moves_no_count():
    gan, x = lazy_gan(3), next(real_batches())
    fake = gan.generate(gan.sample())
    (by_hand,) = torch.autograd.grad(gan.discriminator(leaf := x.clone().requires_grad_()).sum(), leaf)
    for _ in range(3):
        assert gan.d_loss(x, fake).penalty.item() == pytest.approx(3 * 4 / 2 * by_hand.square().sum(1).mean().item(), rel=1e-12)
    gan.update_d(gan.d_loss(x, fake), retain_graph=True)
    for _ in range(2):
        assert gan.d_loss(x, fake).penalty is None


@pytest.mark.parametrize(("every", "d_steps", "turns"), [(1, 1, {None}), (4, 1, {0, 1}), (16, 3, {0, 1, 2, 3}), (2, 3, {0, 1})])
def test_iterations_with_it_in_the_same_place_are_of_one_turn(every, d_steps, turns):
    penalty, found = R1(every=every), {}
    for _ in range(48):
        turn = penalty.turn(d_steps, 1)
        places = []
        for place in range(d_steps):
            places += [place] if penalty.passed["updates"] % every == 0 else []
            penalty.advance(torch.zeros(1), torch.zeros(1))
        assert found.setdefault(turn, places) == places
    assert found.keys() == turns


def test_updates_that_are_not_those_asked_for_are_not_recorded(caplog):
    gan = tiny_gan(Case(NonSaturating, lambda: R1(every=2)), fused=True)
    varying = Step(gan, WarmUp(strategies.detach))
    assert reason_against(varying) == "R1 counts updates, whose number WarmUp varies"

    def one_more(gan, reals, *, d_steps, g_steps):
        strategies.detach(gan, reals, d_steps=d_steps + 1, g_steps=g_steps)

    step = Recorded(Step(gan, one_more), Tapes)
    for _ in range(6):
        step(map(Batch, real_batches()))
    assert "R1 counts updates, and one_more makes others than asked for" in caplog.text
    assert gan.penalty.passed == {"updates": 12}
