"""What is no game between a generator and a discriminator is told so, without a fault and without a name."""

import itertools

import pytest
import torch
from torch import nn

import ganexp
from tests.watching.loops import B, mlp

STATE, ACTION = 3, 2


def adam(*networks):
    return torch.optim.Adam(itertools.chain(*(network.parameters() for network in networks)), 1e-3)


def moved(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def one_optimiser():
    net = mlp(STATE, STATE)
    return adam(net), lambda optimizer, x: moved(optimizer, (net(x) - x).square().mean())


def one_optimiser_of_two_networks():
    encoder, decoder = mlp(STATE, 2), mlp(2, STATE)
    return adam(encoder, decoder), lambda optimizer, x: moved(optimizer, (decoder(encoder(x)) - x).square().mean())


def a_target_made_with_the_network_itself():
    """Values by temporal differences, whose target is the network's own value of the next state."""
    value = mlp(STATE, 1)

    def step(optimizer, x):
        with torch.no_grad():
            target = torch.randn(B, 1) + 0.9 * value(x + 1)
        moved(optimizer, (value(x) - target).square().mean())

    return adam(value), step


def actor_critic(copies, seen):
    """Lillicrap et al. 2016: the critic learns values of actions of a buffer, and the actor climbs the critic's value."""
    torch.manual_seed(0)
    actor, critic = mlp(STATE, ACTION), mlp(STATE + ACTION, 1)
    actor_then, critic_then = (mlp(STATE, ACTION), mlp(STATE + ACTION, 1)) if copies else (actor, critic)
    of_actor, of_critic = adam(actor), adam(critic)
    context = torch.no_grad if not seen else torch.enable_grad

    def step(_, x):
        with context():
            then = x + 1
            target = torch.randn(B, 1) + 0.9 * critic_then(torch.cat([then, actor_then(then)], 1))
        action = torch.randn(B, ACTION)
        moved(of_critic, (critic(torch.cat([x, action], 1)) - target.detach()).square().mean())
        moved(of_actor, -critic(torch.cat([x, actor(x)], 1)).mean())

    return (of_actor, of_critic), step


def actor_and_value():
    """Both read the state, and neither the other's output."""
    actor, value = mlp(STATE, ACTION), mlp(STATE, 1)
    of_actor, of_value = adam(actor), adam(value)

    def step(_, x):
        gain = torch.randn(B, 1)
        moved(of_value, (value(x) - gain).square().mean())
        moved(of_actor, -(actor(x).log_softmax(1)[:, :1] * (gain - value(x).detach())).mean())

    return (of_actor, of_value), step


ONE, CRITIC = "there is one optimiser", "an actor and its critic"
LOOPS = {
    "one optimiser": (one_optimiser, ONE),
    "one optimiser of two networks": (one_optimiser_of_two_networks, ONE),
    "a target of its own": (a_target_made_with_the_network_itself, ONE),
    "an actor and its critic": (lambda: actor_critic(copies=False, seen=False), CRITIC),
    "an actor and its critic, with copies": (lambda: actor_critic(copies=True, seen=False), CRITIC),
    "an actor and its critic, cut off": (lambda: actor_critic(copies=False, seen=True), CRITIC),
    "an actor and a value": (actor_and_value, "no network is given what another one makes"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_it_is_told_that_it_is_no_game(name):
    make, why = LOOPS[name]
    optimizer, step = make()
    with ganexp.watch() as report:
        for _ in range(4):
            step(optimizer, torch.randn(B, STATE))
    assert (report.rule, report.faults) == (None, []), str(report)
    assert why in report.identified.why


def test_a_gan_whose_d_learns_from_real_samples_and_noise_is_still_a_fault():
    """D tells two kinds of samples apart, but the second kind is not G's."""
    g, d = mlp(2, 3), mlp(3, 1)
    of_g, of_d = adam(g), adam(d)
    bce = nn.functional.binary_cross_entropy_with_logits
    with ganexp.watch() as report:
        for _ in range(3):
            of_real, of_noise = d(torch.randn(B, 3)), d(torch.randn(B, 3))
            moved(of_d, bce(of_real, torch.ones(B, 1)) + bce(of_noise, torch.zeros(B, 1)))
            moved(of_g, bce(d(g(torch.randn(B, 2))), torch.ones(B, 1)))
    assert [fault.kind for fault in report.fault_records] == ["fake_unseen"]
