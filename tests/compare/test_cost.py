"""Counted costs, against networks whose costs are known in closed form. Those of strategies: tests/strategies/test_cost.py."""

import contextlib
import threading

import pytest
import torch
from torch import nn

from ganexp import GAN, Prior
from ganexp.compare.cost import cost, measured
from ganexp.compare.racing import Contender
from ganexp.instruments.counting import LiveActivations, key, operations, weights_of
from ganexp.losses import WGAN
from measuring.passes import forward_gflop

BATCH, LATENT, SIZE = 4, 3, 5


def linear_gan():
    generator, discriminator = nn.Linear(LATENT, SIZE), nn.Sequential(nn.Linear(SIZE, 1), nn.Flatten(0))
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (generator, discriminator)]
    return GAN(generator, discriminator, WGAN(), *optimizers, Prior(LATENT), batch_size=BATCH)


def test_a_product_is_two_operations_per_weight_and_sample():
    gan = linear_gan()
    assert operations(lambda: gan.generator(torch.zeros(BATCH, LATENT))) == 2 * BATCH * LATENT * SIZE
    assert forward_gflop(gan) == (2 * BATCH * LATENT * SIZE / 1e9, 2 * BATCH * SIZE / 1e9)


def test_activations_count_from_saving_to_freeing_and_shared_storage_counts_once():
    gan = linear_gan()
    with LiveActivations(weights_of(gan.generator, gan.discriminator)) as activations:
        x = torch.zeros(100, requires_grad=True)
        once = x.exp()  # keeps its result
        assert activations.now == 400
        twice = once * once.view(10, 10).flatten()  # keeps the same storage twice
        assert activations.now == 400
        other = x.exp()
        assert activations.now == 800
        del other
        assert activations.now == 400
        twice.sum().backward()
        del once, twice
    assert (activations.now, activations.peak) == (0, 800)


def test_a_batch_that_is_a_view_of_many_counts_by_itself():
    weight, batches = torch.ones(5, requires_grad=True), torch.zeros(10, 4, 5)
    with LiveActivations(set()) as activations:
        first = batches[0] * weight  # keeps the batch, for the weight's gradient
        assert activations.now == 4 * 5 * 4
        again = batches[0] * weight
        assert activations.now == 4 * 5 * 4
        del first
        assert activations.now == 4 * 5 * 4
        del again
    assert activations.now == 0


def test_each_of_nested_contexts_counts_also_in_a_thread_of_autograds():
    """On a GPU, autograd calls hooks in threads of its own; here, one is called by hand."""
    weight, found = torch.ones(5, requires_grad=True), []
    with LiveActivations({key(weight)}) as outer, LiveActivations(set()) as inner:
        kept = weight * weight
        assert (outer.now, inner.now) == (0, 20)
        thread = threading.Thread(target=lambda: found.append(inner.pack_hook(torch.zeros(10))))
        thread.start()
        thread.join()
        assert (outer.now, inner.now) == (40, 60)
        found.clear()
        del kept
    assert (outer.now, inner.now) == (0, 0)


def test_parameters_are_no_activations():
    gan = linear_gan()
    with LiveActivations(weights_of(gan.generator, gan.discriminator)) as activations:
        gan.generator(torch.zeros(BATCH, LATENT, requires_grad=True)).sum().backward()
    assert activations.peak == BATCH * LATENT * 4  # the input, for the weight's gradient; not the weight, for the input's


def test_times_and_costs_of_a_race():
    gan, calls = linear_gan(), []

    def step():
        calls.append(1)
        gan.generator(gan.sample().values).sum().backward()

    contender, device = Contender(step, gan), torch.device("cpu")
    found = measured({"one": contender}, {"one": cost(contender, device)}, turns=3, iterations=2, device=device)["one"]
    assert found.gflop == pytest.approx(2 * 2 * BATCH * LATENT * SIZE / 1e9)  # one product forward, one for the weight
    assert found.peak_mib == BATCH * LATENT * 4 / 2**20
    assert len(found.times_ms) == 3
    assert len(calls) == 2 + 1 + 2 + 3 * 2


@pytest.mark.parametrize("counted", [False, True])
def test_what_was_changed_in_place_is_refused_as_without_counting(counted):
    x = torch.ones(3, requires_grad=True)
    with LiveActivations(set()) if counted else contextlib.nullcontext():
        made = x.exp()
        total = (made * made).sum()
        made.detach().add_(1)
        with pytest.raises(RuntimeError, match="at version 1; expected version 0"):
            total.backward()
