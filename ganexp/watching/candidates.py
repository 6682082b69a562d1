"""Finds the strategy that makes a loop's updates where several fit its trace: each is run, and its weights are compared.

These strategies take gradients at other weights, or gradients of gradients, so the loss itself must be known. It is sought
among ganexp's losses by its gradient with respect to D's scores.
"""

import copy
from collections.abc import Iterator, Mapping

import torch

import ganexp.losses
from ganexp.losses import Loss
from ganexp.strategies import Strategy
from ganexp.watching.comparison import weight_difference
from ganexp.watching.isolation import refuse_late
from ganexp.watching.replay_gan import KeptTurns, replay_gan
from ganexp.watching.rule import Rule

_every: list[type[Loss]] = [getattr(ganexp.losses, name) for name in ganexp.losses.__all__ if name != "Loss"]
LOSSES = [loss for loss in _every if "logit" in loss.accepts and not loss.reads]
"""The losses that read nothing but logits; they are tried with their default settings."""

EQUAL = {torch.float64: 1e-8, torch.float32: 1e-3}
"""The largest relative difference of updates that rounding explains, by the dtype of the weights."""


def matching_strategies(
    turns: KeptTurns, rule: Rule, known: Mapping[str, Strategy], until: float
) -> tuple[dict[str, float], str]:
    """Return the strategies that make the updates of a loop in two iterations, or the reason why there are none.

    Each is returned with the difference of the weights relative to the largest update. Several are returned if they differ from
    the loop by rounding alone. No strategy is begun after the time `until`, of `time.monotonic`.
    """
    why = turns.not_repeatable or turns.why_random
    if why:
        return {}, why
    dtype = next(p.dtype for player in turns.trace.players.values() for p in player.parameters())
    equal = EQUAL.get(dtype, EQUAL[torch.float32])
    losses = [*_losses(turns)]
    if not losses:
        return {}, "its loss is none of ganexp's"
    differences: dict[str, float] = {}
    for loss in losses:
        for name in ("joint", *rule.candidates):
            refuse_late(until)
            difference = _difference(turns, loss, known[name], rule, equal)
            if difference is not None and difference <= equal:
                differences[name] = min(difference, differences.get(name, difference))
    if not differences:
        return {}, "with its default settings, none of them makes these updates"
    limit = max(10 * min(differences.values()), equal / 10)
    return {name: difference for name, difference in differences.items() if difference <= limit}, ""


def _losses(turns: KeptTurns) -> Iterator[Loss]:
    """Yield the losses whose gradient with respect to D's scores equals the loop's in D's first update."""
    d = next(update for update in turns.updates[0] if update.role == "D")
    passes, discriminator = (d.real[0], d.fake[0]), turns.network("D")
    turns.start.put_back([discriminator], [])
    with torch.enable_grad():
        scores = [discriminator(*network_pass.arguments).flatten().detach().requires_grad_(True) for network_pass in passes]
        seeds = [network_pass.seeds[0][1].flatten() for network_pass in passes]
        for kind in LOSSES:
            gradients = torch.autograd.grad(kind().d_loss(*scores), scores)
            if all(torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(gradients, seeds, strict=True)):
                yield kind()


def _difference(turns: KeptTurns, loss: Loss, strategy: Strategy, rule: Rule, equal: float) -> float | None:
    """Run a strategy, and return the largest difference from the loop's weights after any iteration; None if it fails."""
    strategy = copy.deepcopy(strategy)  # some have a state
    worst = 0.0
    try:
        gan, reals = replay_gan(turns, loss)
        remaining = iter(reals)
        for number in range(len(turns.updates)):
            with torch.enable_grad():
                strategy(gan, remaining, d_steps=rule.d_steps, g_steps=rule.g_steps)
            worst = max(worst, weight_difference(turns, number))
            if worst > equal:
                break
    except Exception:  # the strategy refuses the loss, samples run out, or a foreign network fails
        return None
    return worst
