"""What all strategies have in common, whether they are functions or objects."""

import inspect
import itertools

import pytest
import torch

from ganexp import Step
from ganexp.strategies import Strategy
from ganexp.strategies.base import as_strategy
from ganexp.wrappers import Lookahead
from measuring.tracing import trace
from tests.tiny import CASES, STRATEGIES, tiny_gan


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_says_what_it_is_and_is_called_alike(name):
    strategy = STRATEGIES[name]
    assert str(inspect.signature(strategy)).startswith("(gan: ganexp.gan.gan.GAN, reals: ")
    assert ", *, d_steps: int, g_steps: int" in str(inspect.signature(strategy))  # settings have defaults, behind them
    settings = [*inspect.signature(strategy).parameters.values()][4:]
    assert all(one.default is not one.empty for one in settings)
    assert f"Trace: `{trace(strategy)}`" in (strategy.__doc__ or "")
    if inspect.isfunction(strategy):
        assert (strategy.__name__, strategy.__module__) == (name, f"ganexp.strategies.{name}")
        assert str(as_strategy(strategy)) == name


class Counting(Strategy):
    """A stateful strategy of somebody else's that says nothing but what it must."""

    def __init__(self):
        self.iterations = 0

    def __call__(self, gan, reals, *, d_steps, g_steps):
        self.iterations += 1

    def state_dict(self):
        return {"iterations": self.iterations}

    def load_state_dict(self, state):
        self.iterations = state["iterations"]


def test_a_state_is_checkpointed_and_in_the_way_of_a_recording():
    gan = tiny_gan(CASES["nonsaturating"])
    step, resumed = (Step(gan, Lookahead(Counting(), every=2)) for _ in range(2))
    for _ in range(3):
        step.strategy(gan, itertools.repeat(torch.zeros(1)), d_steps=1, g_steps=1)
    resumed.load_state_dict(step.state_dict())
    assert resumed.strategy.strategy.iterations == 3
    assert Counting().keeps_count
    assert not as_strategy(STRATEGIES["joint"]).keeps_count


def test_an_object_whose_state_would_not_be_found_is_no_strategy():
    class Called:
        def __call__(self, gan, reals, *, d_steps, g_steps):
            raise AssertionError

    with pytest.raises(TypeError, match="not a Called"):
        Step(tiny_gan(CASES["nonsaturating"]), Called())
