"""Batches in parts: the gradients of the whole batch for every strategy, with the memory of a part."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from ganexp import Batch, build
from ganexp.gan.micro_batches import InParts, MicroBatches, refuse_inexact
from ganexp.gan.passes import Passes
from ganexp.instruments.counting import LiveActivations, weights_of
from ganexp.losses import NonSaturating
from ganexp.networks.minibatch_deviation import MinibatchDeviation
from ganexp.penalties import R1R2
from tests.composing import composed, every_strategy
from tests.small_runs import NARROW
from tests.tiny import CASES, STRATEGIES, TWICE, Case, gan_in_parts, real_batches, train


@pytest.mark.parametrize("loss", ["wgan_gp", "softmaxgan", "began"])
@pytest.mark.parametrize("strategy", every_strategy(but=TWICE))
def test_every_strategy_moves_as_with_whole_batches(strategy, loss):
    whole = train(gan_in_parts(1, CASES[loss]), STRATEGIES[strategy], 3, d_steps=2)
    parts = train(gan_in_parts(4, CASES[loss], redundant_gradients=True), STRATEGIES[strategy], 3, d_steps=2)
    torch.testing.assert_close(whole, parts, rtol=1e-10, atol=1e-13)


def test_a_graph_that_is_kept_and_gradients_of_gradients():
    network = nn.Sequential(nn.Linear(2, 5), nn.Softplus(), nn.Linear(5, 1), nn.Flatten(0)).double()
    x = next(real_batches()).requires_grad_()
    found = []
    for count in (1, 4):
        values = x.view_as(x)
        scores = Passes(accumulate=count).score(network, Batch(values)).logsumexp(0)
        parameters = [*network.parameters()]
        first = torch.autograd.grad(scores, parameters, retain_graph=True)
        again = torch.autograd.grad(scores, parameters, retain_graph=True)
        assert all(map(torch.equal, first, again))
        (derivative,) = torch.autograd.grad(scores, values, create_graph=True)
        second = torch.autograd.grad(derivative.square().sum(), parameters, allow_unused=True, materialize_grads=True)
        assert any(one.any() for one in second)
        found.append([*first, *second])
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-14)


def test_in_bfloat16_scores_are_those_of_the_whole_batch():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
    x, found = torch.randn(8, 2), []
    for count in (1, 4):
        scores = Passes(torch.bfloat16, count).score(network, Batch(x))
        assert scores.dtype == torch.float32
        found.append((scores.detach(), *torch.autograd.grad(scores.logsumexp(0), [*network.parameters()])))
    torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(*found, rtol=3e-2, atol=1e-2)


def test_random_layers_draw_the_same_again():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 50), nn.Dropout(0.5), nn.Linear(50, 1), nn.Flatten(0)).double()
    x = next(real_batches())
    torch.manual_seed(7)
    scores = torch.cat([network(part) for part in x.split(2)])
    expected = torch.autograd.grad(scores.logsumexp(0), [*network.parameters()])
    passes = Passes(accumulate=3)
    passes.parts._draws[network] = refuse_inexact(network, Batch(x))
    assert passes.parts._draws[network]
    torch.manual_seed(7)
    found = passes.score(network, Batch(x))
    torch.rand(3)  # others draw in between
    assert all(map(torch.equal, expected, torch.autograd.grad(found.logsumexp(0), [*network.parameters()])))


class Shaken(nn.Module):
    """Draws from NumPy's stream."""

    def forward(self, x):
        return x + np.random.rand()  # noqa: NPY002


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        (nn.BatchNorm1d(4), "changes its running_mean in every pass"),
        (nn.BatchNorm1d(4, track_running_stats=False), "lets the samples of a batch depend on each other"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), "changes its _u in every pass"),
        (MinibatchDeviation(), "lets the samples of a batch depend on each other"),
        (Shaken(), "draws random numbers from another stream than torch's"),
    ],
    ids=["batch norm", "without statistics", "spectral norm", "minibatch deviation", "another stream"],
)
def test_what_parts_would_change_is_refused_and_left_as_it_was(layer, sentence):
    network = nn.Sequential(nn.Linear(2, 4), layer, nn.LazyLinear(1), nn.Flatten(0))
    network(torch.randn(4, 2))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    stream = torch.get_rng_state()
    with pytest.raises(ValueError, match=sentence):
        MicroBatches(2)(lambda network, batch: network(batch.values), network, Batch(torch.randn(8, 2)))
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    torch.set_rng_state(stream)
    assert refuse_inexact(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4).eval()), Batch(torch.randn(8, 2))) is False


def test_a_network_that_moved_before_its_backward_pass_is_refused():
    gan = gan_in_parts(3, CASES["hinge"])
    x, fake = next(real_batches()), gan.generate(gan.sample())
    stale = gan.d_loss(x, fake.detach())
    gan.update_d(gan.d_loss(x, fake.detach()))
    with pytest.raises(RuntimeError, match="a network was moved between a pass and its backward pass"):
        gan.update_d(stale)


def peak_bytes(accumulate, strategy):
    settings = ["dataset=fake", "dataset.image_size=16", "dataset.n=64", "batch_size=64", "average=none", "iterations=3"]
    networks = ["generator.batch_norm=false", "generator.width=8", "discriminator.width=8", "optimizer=sgd", "device=cpu"]
    made = build(composed(*settings, *networks, f"accumulate={accumulate}", f"strategy={strategy}"))
    made.step(made.reals)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        made.step(made.reals)
    changes = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(itertools.accumulate(event.nbytes() for event in sorted(changes, key=lambda event: event.start_ns())))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["detach", "joint"])
def test_the_peak_of_memory_falls(strategy):
    whole, halves, eighths = (peak_bytes(n, strategy) for n in (1, 2, 8))
    assert halves < 0.75 * whole
    assert eighths < 0.65 * whole


def test_chosen_on_the_command_line():
    assert build(composed(*NARROW, "generator.batch_norm=false", "accumulate=2")).gan._passes.parts.count == 2


def test_the_last_part_may_be_smaller():
    sizes = []
    network = nn.Flatten(0)
    for length, count in itertools.product((6, 7), (3, 4)):
        run = lambda network, batch: (sizes[-1].append(len(batch)), network(batch.values))[1]  # noqa: E731
        sizes.append([])
        with torch.no_grad():
            found = MicroBatches(count)(run, network, Batch(torch.arange(length)[:, None]))
        assert found.tolist() == [*range(length)]
    assert sizes == [[2, 2, 2], [2, 2, 2], [3, 3, 1], [2, 2, 2, 1]]


def test_penalties_on_gradients_pass_parts_too():
    """The gradients are those of the whole batch, and what is kept for them falls."""
    ends, peaks = [], []
    for count in (1, 6):
        gan = gan_in_parts(count, Case(NonSaturating, R1R2))
        with LiveActivations(weights_of(gan.generator, gan.discriminator)) as live:
            ends.append(train(gan, STRATEGIES["detach"], 3))
        peaks.append(live.peak)
    torch.testing.assert_close(*ends, rtol=1e-10, atol=1e-13)
    assert peaks[1] < 0.5 * peaks[0]


class HalfUsed(nn.Module):
    """Has a weight that no sample reaches, one that only positive samples reach, and one that its gradient does not see."""

    def __init__(self):
        super().__init__()
        self.unused, self.sometimes, self.always, self.bias = (nn.Parameter(torch.ones(2)) for _ in range(4))

    def forward(self, x):
        weight = self.always * self.sometimes if x.sum() > 0 else self.always
        return (x * weight).sin().sum(1) + self.bias.sum()


def test_a_weight_that_no_part_reaches_has_no_gradient():
    """So that an optimiser which decays weights leaves it alone, as with a whole batch."""
    discriminator = HalfUsed()
    x = torch.tensor([[1.0, 2.0], [-1.0, -2.0]], requires_grad=True)
    scores = InParts(discriminator, 2)(x)
    (of_x,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
    of_x.square().sum().backward(retain_graph=True)
    found = {name: p.grad is not None for name, p in discriminator.named_parameters()}
    assert found == {"unused": False, "sometimes": True, "always": True, "bias": False}
    scores.sum().backward()
    assert discriminator.unused.grad is None
    assert discriminator.bias.grad.tolist() == [2, 2]


def test_a_third_derivative_is_refused():
    x = torch.ones(4, 2, requires_grad=True)
    scores = InParts(HalfUsed(), 2)(x)
    (first,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        second.sum().backward()
