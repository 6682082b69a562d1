"""A penalty that only some updates have: which, how heavy, and what remembers it."""

import pytest
import torch

from ganexp import strategies
from ganexp.losses import Minimax, NonSaturating
from ganexp.penalties import R1, GradientPenalty
from ganexp.strategies.base import as_strategy
from ganexp.training import Step
from ganexp.training.cuda_graph import Recorded, reason_against
from tests.composing import every_strategy
from tests.tiny import STRATEGIES, Case, descend, real_batches, state, tiny_gan
from tests.training.tape import Tape


class Noted(R1):
    """R1 that notes at which count of updates it was computed."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.seen = []

    def __call__(self, discriminator, x, fake):
        self.seen.append(self.updates)
        return super().__call__(discriminator, x, fake)


def lazy_gan(every, loss=NonSaturating, **settings):
    return tiny_gan(Case(loss, lambda: Noted(weight=4.0, every=every)), **settings)


@pytest.mark.parametrize("strategy", every_strategy())
def test_every_third_update_of_d_has_it(strategy):
    gan, reals = lazy_gan(3, Minimax), real_batches()
    function = STRATEGIES[strategy]
    for _ in range(4):
        function(gan, reals, d_steps=2, g_steps=1)
    assert gan.meter.updates["d"] == gan.penalty.updates == 8
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


def test_a_plain_loop_with_a_lazy_penalty():
    gan, loop = lazy_gan(2), lazy_gan(2)
    reals, plain = real_batches(), real_batches()
    for i in range(5):
        strategies.detach(gan, reals, d_steps=1, g_steps=1)
        x, fake = next(plain), loop.generator(loop.sample().values)
        loss = loop.loss.d_loss(loop.discriminator(x), loop.discriminator(fake.detach()))
        if i % 2 == 0:
            leaf = x.clone().requires_grad_()
            (derivative,) = torch.autograd.grad(loop.discriminator(leaf).sum(), leaf, create_graph=True)
            loss = loss + 2 * 4.0 / 2 * (derivative**2).sum(1).mean()
        descend(loop.optimizer_d, loss)
        descend(loop.optimizer_g, loop.loss.g_loss(None, loop.discriminator(fake)))
    torch.testing.assert_close(state(gan), state(loop), rtol=1e-11, atol=1e-12)


def test_the_count_is_resumed_with_the_stream():
    penalty = GradientPenalty(every=4)
    penalty.begin(3, torch.device("cpu"))
    for _ in range(6):
        penalty.advance(torch.zeros(1), torch.zeros(1))
    resumed = GradientPenalty(every=4)
    resumed.begin(0, torch.device("cpu"))
    resumed.load_state_dict(penalty.state_dict())
    assert resumed.updates == 6
    assert torch.equal(resumed.rng.get_state(), penalty.rng.get_state())


def test_iterations_that_differ_are_not_recorded():
    assert reason_against(as_strategy(strategies.detach), R1(every=2)) == "R1 keeps count of updates"
    assert reason_against(as_strategy(strategies.detach), R1(every=1)) == ""
    with pytest.raises(ValueError, match="it cannot be recorded: Noted keeps count of updates"):
        Recorded(Step(lazy_gan(2), strategies.detach), Tape)
