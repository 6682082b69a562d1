"""A penalty that only some updates have: which, and how heavy."""

import pytest
import torch

from ganexp.losses import Minimax, NonSaturating
from ganexp.penalties import R1
from tests.composing import every_strategy
from tests.tiny import STRATEGIES, Case, real_batches, tiny_gan


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
