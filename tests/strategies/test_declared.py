"""What a strategy declares is what it does."""

import pytest
import torch

from ganexp import GAN
from ganexp.losses import Hinge
from ganexp.strategies import Extragradient, RungeKutta
from ganexp.strategies.base import as_strategy, declared
from ganexp.wrappers import LatentStep, Lookahead, TopK
from tests.composing import every_strategy, suited
from tests.strategies.maps import EQUAL
from tests.tiny import CASES, KINDS, STRATEGIES, real_batches, tiny_gan, train


class Observed(GAN):
    """Notes what a strategy asks for besides samples, objectives and derivatives, and at which weights networks are called."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.needed, self.latents, self.scores, self.twice = set(), [], [], False
        self.called_at, self.led_to = [], [weights(self.generator), weights(self.discriminator)]
        for network in (self.generator, self.discriminator):
            network.register_forward_pre_hook(lambda module, _: self.called_at.append(weights(module)))

    def generate(self, z):
        if any(z.values.data_ptr() == one.data_ptr() for one in self.latents):
            self.needed.add("latents")
        self.latents.append(z.values)
        return super().generate(z)

    def score(self, batch, discriminator):
        if discriminator is not self.discriminator:
            self.needed.add("discriminator")
        self.scores.append(super().score(batch, discriminator))
        return self.scores[-1]

    def gradients_taken(self, outputs, inputs, *args, create_graph=False, **settings):
        self.twice |= create_graph
        asked = [inputs] if isinstance(inputs, torch.Tensor) else inputs
        if any(one is scores for one in asked for scores in self.scores):
            self.needed.add("scores")
        return GRAD(outputs, inputs, *args, create_graph=create_graph, **settings)

    def update_d(self, *args, **settings):
        super().update_d(*args, **settings)
        self.led_to.append(weights(self.discriminator))

    def update_g(self, *args, **settings):
        super().update_g(*args, **settings)
        self.led_to.append(weights(self.generator))

    def update_both(self, *args, **settings):
        moved = super().update_both(*args, **settings)
        self.led_to += [weights(self.generator), weights(self.discriminator)]
        return moved


GRAD = torch.autograd.grad


def weights(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.parametrize(
    "strategy", [*every_strategy(), Extragradient(same_batch=True), RungeKutta(regulariser=0.1)], ids=lambda one: str(one)
)
def test_needs_and_derivatives_and_looking_ahead(strategy, monkeypatch):
    gan = tiny_gan(CASES[suited(strategy) if isinstance(strategy, str) else "minimax"], gan_class=Observed)
    strategy = as_strategy(STRATEGIES[strategy] if isinstance(strategy, str) else strategy)
    monkeypatch.setattr(torch.autograd, "grad", gan.gradients_taken)
    reals = real_batches()
    for _ in range(3):
        gan.latents.clear()
        strategy(gan, reals, d_steps=1, g_steps=1)
    try:
        strategy.refuse(gan.discriminator, Hinge(), next(reals))
    except ValueError:
        gan.needed.add("zero_sum")
    ahead = any(not any(torch.equal(one, there) for there in gan.led_to if len(there) == len(one)) for one in gan.called_at)
    assert {*strategy.needs} == gan.needed
    assert (strategy.looks_ahead, strategy.differentiates_gradients) == (ahead, gan.twice)


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_a_strategy_that_equals_another_makes_its_updates(first, second, loss):
    ends = [train(tiny_gan(CASES[loss]), STRATEGIES[name], d_steps=3) for name in (first, second)]
    torch.testing.assert_close(*ends, rtol=1e-11, atol=1e-12)


def test_a_wrapper_needs_what_it_needs_itself_and_what_the_strategy_inside_does():
    assert Lookahead(STRATEGIES["reuse_z"]).needs == ("latents",)
    assert LatentStep(TopK(STRATEGIES["unrolled"])).needs == ("scores", "discriminator", "latents")


def test_a_function_declares_by_a_decorator():
    @declared(equals="joint", needs=("zero_sum",))
    def mine(gan, reals, *, d_steps, g_steps):
        pass

    mine = as_strategy(mine)
    assert (str(mine), mine.equals, mine.needs, mine.looks_ahead) == ("mine", "joint", ("zero_sum",), False)
