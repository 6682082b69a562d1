"""Ways of sharing a fake batch that look right and fail, with PyTorch's own words: why strategies are what they are."""

import pytest
import torch
from torch.nn.functional import logsigmoid

from ganexp.networks import MLPDiscriminator, MLPGenerator


@pytest.fixture
def loop():
    torch.manual_seed(0)
    generator, discriminator = MLPGenerator(3, (2,), width=5), MLPDiscriminator((2,), width=5)
    steps = [torch.optim.SGD(network.parameters(), lr=0.1).step for network in (generator, discriminator)]
    return generator, discriminator, *steps


def test_neither_detached_nor_retained_the_graph_is_spent(loop):
    generator, discriminator, _, step_d = loop
    fake = generator(torch.randn(4, 3))
    (-logsigmoid(-discriminator(fake)).mean()).backward()
    step_d()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        (-logsigmoid(discriminator(fake)).mean()).backward()


def test_scores_kept_over_ds_step_cannot_be_differentiated(loop):
    generator, discriminator, _, step_d = loop
    scores = discriminator(generator(torch.randn(4, 3)))
    (-logsigmoid(-scores).mean()).backward(retain_graph=True)
    step_d()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (-logsigmoid(scores).mean()).backward()


def test_scores_of_a_detached_batch_teach_the_generator_nothing(loop):
    generator, discriminator, _, _ = loop
    scores = discriminator(generator(torch.randn(4, 3)).detach())
    (-logsigmoid(scores).mean()).backward()
    assert all(p.grad is None for p in generator.parameters())


def test_both_backward_passes_before_either_step_is_what_was_meant(loop):
    generator, discriminator, step_g, step_d = loop
    scores = discriminator(generator(torch.randn(4, 3)))
    (-logsigmoid(-scores).mean()).backward(retain_graph=True)
    (-logsigmoid(scores).mean()).backward()
    step_d()
    step_g()
    assert all(p.grad is not None for p in generator.parameters())
