"""What a watched iteration takes, against closed forms and ganexp's own counts."""

import copy
import itertools

import pytest
import torch
from torch import nn

import ganexp
from ganexp.instruments.counting import LiveActivations, operations, weights_of
from tests.watching.broken import alternating
from tests.watching.loops import LATENT, SIZE, SOUND, B, setting
from tests.watching.own import NAMED, gan_and_reals, watched

HIDDEN, BYTES = 16, 4
"""The width of the networks of `setting`, and the bytes of a number."""


def seen_of(step, iterations=2):
    with ganexp.watch() as report:
        for _ in range(iterations):
            step()
    return report


def kept(inputs):
    """Return the numbers that a pass keeps: its input, and before and after the rectifier in the middle."""
    return B * (inputs + 2 * HIDDEN)


LOSS = 2 * B  # a loss on logits keeps scores and targets


@pytest.mark.parametrize(
    ("name", "numbers"),
    {
        "kept_graph": kept(LATENT) + 2 * kept(SIZE) + 2 * LOSS,  # G, real and fake at once
        "dcgan_tutorial": kept(LATENT) + kept(SIZE) + LOSS,  # G beside D on fakes alone
        "latents_again": 2 * kept(SIZE) + 2 * LOSS,  # D's step, whose fakes have no graph
    }.items(),
)
def test_activations_at_the_peak_are_those_of_the_closed_form(name, numbers):
    assert seen_of(SOUND[name][0]()[1]).activations == BYTES * numbers


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.slow
def test_the_counts_are_those_of_an_unwatched_iteration(name):
    strategy = copy.deepcopy(NAMED[name])
    report = watched(strategy)
    gan, reals = gan_and_reals()
    for _ in range(2):
        strategy(gan, reals, d_steps=1, g_steps=1)
    count = operations(lambda: strategy(gan, reals, d_steps=1, g_steps=1))
    with LiveActivations(weights_of(gan.generator, gan.discriminator)) as activations:
        strategy(gan, reals, d_steps=1, g_steps=1)
    assert (report.operations, report.activations) == (count, activations.peak)


@pytest.mark.parametrize("name", ["detach", "joint"])
def test_what_a_strategy_would_take_instead_is_what_it_takes(name):
    of = watched(NAMED["resample"])
    (instead,) = (one for one in of.instead if one.strategy == name)
    own = watched(NAMED[name])
    assert (instead.operations, instead.activations) == (own.operations, own.activations)


def test_several_steps_are_counted_instead():
    report = seen_of(SOUND["wgan_clipped"][0]()[1])
    one, five = (watched(NAMED["detach"], d_steps=n).operations for n in (1, 5))
    g, d = 2 * B * (LATENT * HIDDEN + HIDDEN * SIZE), 2 * B * (SIZE * HIDDEN + HIDDEN)
    assert five > one
    assert {one.strategy: one.operations for one in report.instead}["detach"] == sum(
        [
            5 * (2 * d + 2 * (2 * d - 2 * B * SIZE * HIDDEN)),  # D on real and fake, without gradients by samples
            5 * g + (2 * g - 2 * B * LATENT * HIDDEN) + 2 * d,  # G, then through D by samples alone
        ]
    )


def test_costs_name_what_is_thrown_away():
    """The textbook loop fills D's gradients in G's step; with `inputs=`, it does not."""
    report = seen_of(alternating(setting())[1])
    assert [one.what for one in report.costs if "thrown away" in one.remark] == ["bDG"]
    assert all(one.ms > 0 for one in report.costs)


def test_operations_are_counted_as_in_closed_form():
    """Of the 9d + 3g of the textbook loop, d are thrown away: the gradients by D's weights in G's step."""
    p, step = alternating(setting())
    report = seen_of(step)
    g, d = (2 * B * sum(one.weight.numel() for one in net if isinstance(one, nn.Linear)) for net in (p.G, p.D))
    first = 2 * B * p.D[0].weight.numel(), 2 * B * p.G[0].weight.numel()
    forward = g + 3 * d
    backward = 2 * (2 * d - first[0]) + 2 * d + (2 * g - first[1])  # no gradients by what is given
    assert sum(one.operations for one in report.costs) == forward + backward
    assert sum(one.wasted for one in report.costs) == d


def test_functional_gradients_run_as_they_do_unwatched():
    """torch.func refuses hooks on saved tensors, which watching has; it does not meet them."""
    _, step = alternating(setting())
    with ganexp.watch() as report:
        step(), step()
        slope = torch.func.grad(lambda x: (x**3).sum())(torch.ones(2))
    assert torch.equal(slope, torch.full((2,), 3.0))
    assert report.rule == "detach"


def test_values_that_are_read_are_a_cost_and_no_fault():
    """A loss that is read in each iteration, and one in every second iteration twice."""
    p, usual = alternating(setting())
    turns = itertools.count()

    def step():
        usual()
        p.D(p.x()).mean().item()
        if next(turns) % 2:
            float(p.D(p.x()).mean().detach()), int(p.D(p.x()).mean().detach())

    report = seen_of(step, 4)
    assert (report.rule, report.faults) == ("detach", [])
    assert [(one.place.partition(":")[0], one.per_iteration) for one in report.waits] == [("test_costs.py", 1.0)] * 2
    assert len({one.place for one in report.waits}) == 2


def test_fakes_from_the_same_latents_are_new_ones_once_g_has_moved():
    report = seen_of(SOUND["lightning_module"][0]()[1])
    assert not [one for one in report.costs if "twice" in one.remark]


def test_gradients_that_a_third_optimiser_uses_are_not_thrown_away():
    """PyTorch-GAN's InfoGAN: an optimiser of G and D together moves them along a loss of its own."""
    with ganexp.watch() as report:
        p, usual = alternating(setting())
        both = torch.optim.Adam([*p.G.parameters(), *p.D.parameters()], 1e-3)
        for _ in range(2):
            usual()
            both.zero_grad()
            p.D(p.G(p.z())).square().mean().backward()
            both.step()
        usual()
    assert [one.what for one in report.costs if "thrown away" in one.remark] == ["bDG"]


def test_labels_that_become_one_hot_are_read_on_a_cpu_only_and_so_are_no_wait():
    _, usual = alternating(setting())

    def step():
        usual()
        torch.nn.functional.one_hot(torch.arange(B) % 3, 3)

    assert seen_of(step).waits == []


def test_what_a_data_loader_reads_is_no_wait_of_the_loop():
    p, usual = alternating(setting())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(p.x()), B, shuffle=True)

    def step():
        for _ in loader:
            usual()

    assert seen_of(step).waits == []
