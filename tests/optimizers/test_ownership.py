"""Networks and optimisers that do not belong together are refused; otherwise they would train in silence, or not at all."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.parallel import DataParallel

from ganexp import GAN, Prior, strategies
from ganexp.losses import NonSaturating
from ganexp.optimizers import OptimisticAdam
from ganexp.optimizers.ownership import Optimized
from tests.tiny import BATCH, CASES, LATENT, STRATEGIES, real_batches, tiny_gan


def made(G, D, of_g=None, of_d=None):
    optimizer_g = torch.optim.SGD(list(of_g or G.parameters()), 0.1)
    optimizer_d = torch.optim.SGD(list(of_d or D.parameters()), 0.1)
    return GAN(G, D, NonSaturating(), optimizer_g, optimizer_d, Prior(3), batch_size=4)


def networks():
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1), nn.Flatten(0))


def refusals():
    G, D = networks()
    partly = list(D[0].parameters())
    shared = nn.Sequential(nn.Linear(2, 3), G[0], nn.Linear(4, 1), nn.Flatten(0))
    return {
        "swapped": ((G, D, D.parameters(), G.parameters()), "optimizer_g has parameters that are not the generator's"),
        "one for both": ((G, D, [*G.parameters(), *D.parameters()]), "optimizer_g has parameters that are not the generator's"),
        "of another copy": ((G, D, None, copy.deepcopy(D).parameters()), "optimizer_d has parameters that are not"),
        "of a part": ((G, D, None, partly), r"optimizer_d lacks 2 trainable parameters of the discriminator, 1\.weight among"),
        "shared layers": ((G, shared), r"share parameters, 1\.weight among them, .* by copy\.deepcopy"),
        "wrapped": ((DataParallel(G), D), "the generator is wrapped in DataParallel.* generator.module"),
        "wrapped within": ((G, nn.Sequential(DataParallel(D))), "the discriminator is wrapped in DataParallel"),
    }


def test_step_counts_of_our_own_optimisers_are_loaded_onto_the_parameters_device():
    parameter = nn.Parameter(torch.ones(2, 3))
    parameter.grad = torch.ones(2, 3)
    optimizer = OptimisticAdam([parameter])
    optimizer.step()
    elsewhere = nn.Linear(3, 2, bias=False, device="meta")  # for a GPU
    moved = Optimized("discriminator", "optimizer_d", elsewhere, OptimisticAdam(elsewhere.parameters()))
    moved.load_state_dict(optimizer.state_dict())
    assert {value.device.type for value in moved.optimizer.state[elsewhere.weight].values()} == {"meta"}


@pytest.mark.parametrize("name", refusals())
def test_what_does_not_belong_together_is_refused(name):
    arguments, sentence = refusals()[name]
    with pytest.raises(ValueError, match=sentence):
        made(*arguments)


@pytest.mark.parametrize("strategy", ["detach", "joint", "one_stage", "extragradient"])
def test_parameters_are_frozen_and_unfrozen_while_training(strategy):
    """A layer frozen at first and unfrozen later trains from then on as that of a loop that looks each time."""
    gan = tiny_gan(CASES["nonsaturating"])
    layer, reals = gan.discriminator.layers[1], real_batches()
    layer.requires_grad_(False)
    start = layer.weight.clone()
    for frozen in (True, False, True):
        layer.requires_grad_(not frozen)
        before = layer.weight.clone()
        STRATEGIES[strategy](gan, reals, d_steps=1, g_steps=1)
        assert torch.equal(layer.weight, before) == frozen
    assert not torch.equal(layer.weight, start)


def test_a_parameter_unfrozen_beside_the_optimiser_is_told():
    G, D = networks()
    D[0].requires_grad_(False)
    gan = made(G, D, None, D[1].parameters())
    reals = iter(lambda: torch.ones(4, 2), None)
    strategies.detach(gan, reals, d_steps=1, g_steps=1)
    D[0].requires_grad_(True)
    with pytest.raises(ValueError, match=r"optimizer_d lacks 2 trainable parameters .* requires_grad_\(False\)"):
        strategies.detach(gan, reals, d_steps=1, g_steps=1)


@pytest.mark.parametrize("loss", CASES)
@pytest.mark.parametrize("end", [nn.Unflatten(0, (-1, 1)), nn.Unflatten(0, (-1, 2, 1)), nn.Unflatten(0, (-1, 2))])
def test_scores_of_another_shape_are_refused_by_every_loss(loss, end):
    G = tiny_gan(CASES[loss]).generator
    D = nn.Sequential(CASES[loss].discriminator(), end).double()
    optimizers = (torch.optim.SGD(network.parameters(), 0.1) for network in (G, D))
    gan = GAN(G, D, CASES[loss].loss(), *optimizers, Prior(LATENT, dtype=torch.float64), batch_size=BATCH)
    with pytest.raises(ValueError, match=r"one score per sample, \(6,\) for a batch of shape \(6, 2\), .* and returned \("):
        strategies.detach(gan, real_batches(), d_steps=1, g_steps=1)


@pytest.mark.parametrize(
    "update",
    [
        lambda gan, x, fake: gan.update_g(gan.g_loss(x, fake.detach())),
        lambda gan, x, fake: gan.update_g(gan.g_loss(fake, x)),
        lambda gan, x, fake: gan.update_both(gan.d_loss(x, fake), gan.g_loss(x, fake.detach())),
    ],
    ids=["detached", "swapped", "one of two"],
)
def test_an_update_that_would_move_nothing_is_refused(update):
    gan = tiny_gan(CASES["hinge"])
    with pytest.raises(ValueError, match="depends on no parameter of the network that it moves: a batch was detached"):
        update(gan, next(real_batches()), gan.generate(gan.sample()))


def test_a_frozen_network_cannot_be_updated():
    gan = tiny_gan(CASES["hinge"])
    gan.generator.requires_grad_(False)
    with pytest.raises(ValueError, match="the generator has no trainable parameter: unfreeze some"):
        strategies.joint(gan, real_batches(), d_steps=1, g_steps=1)
