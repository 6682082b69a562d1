"""Finds the strategy that makes a loop's updates where several fit its trace: each is run, and its weights are compared.

These strategies take gradients at other weights, or gradients of gradients, so the loss itself must be known. It is sought
among ganexp's losses by its gradient with respect to D's scores.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence

import torch

import ganexp.losses
from ganexp.losses import Loss
from ganexp.strategies import Strategy
from ganexp.watching.comparison import weight_difference
from ganexp.watching.events import Event
from ganexp.watching.recorder import Recorder
from ganexp.watching.replay_gan import replay_gan, why_not_replayable
from ganexp.watching.rule import Rule
from ganexp.watching.trace import Trace, Update

_every: list[type[Loss]] = [getattr(ganexp.losses, name) for name in ganexp.losses.__all__ if name != "Loss"]
LOSSES = [loss for loss in _every if "logit" in loss.accepts and not loss.reads]
"""The losses that read nothing but logits; they are tried with their default settings."""

EQUAL = {torch.float64: 1e-8, torch.float32: 1e-3}
"""The largest relative difference of updates that rounding explains, by the dtype of the weights."""


def matching_strategies(
    recorder: Recorder, trace: Trace, iterations: Sequence[Sequence[Event]], rule: Rule, known: Mapping[str, Strategy]
) -> tuple[dict[str, float], str]:
    """Return the strategies that make the updates of a loop's first two iterations, or the reason why there are none.

    Each is returned with the difference of the weights relative to the largest update. Several are returned if they differ from
    the loop by rounding alone.
    """
    updates = [trace.updates(iteration) for iteration in iterations[:2]]
    why = why_not_replayable(recorder, trace, updates[0] + updates[-1]) or recorder.not_repeatable
    if why:
        return {}, why
    dtype = next(p.dtype for player in recorder.players.values() for p in player.parameters())
    equal = EQUAL.get(dtype, EQUAL[torch.float32])
    try:
        losses = [*_losses(recorder, updates[0])]
    except Exception as error:  # anything may be in a foreign network
        return {}, f"its networks do not run again ({type(error).__name__})"
    if not losses:
        return {}, "its loss is none of ganexp's"
    differences: dict[str, float] = {}
    for loss in losses:
        for name in ("joint", *rule.candidates):
            difference = _difference(recorder, trace, updates, loss, known[name], rule, equal)
            if difference is not None and difference <= equal:
                differences[name] = min(difference, differences.get(name, difference))
    if not differences:
        return {}, "with its default settings, none of them makes these updates"
    limit = max(10 * min(differences.values()), equal / 10)
    return {name: difference for name, difference in differences.items() if difference <= limit}, ""


def _losses(recorder: Recorder, updates: Sequence[Update]) -> Iterator[Loss]:
    """Yield the losses whose gradient with respect to D's scores equals the loop's in D's first update."""
    d = next(update for update in updates if update.role == "D")
    passes = (d.real[0], d.fake[0])
    discriminator = copy.deepcopy(recorder.snapshots.copies[passes[0].network][0])  # type: ignore[index]
    with torch.enable_grad():
        scores = [discriminator(*network_pass.arguments).flatten().detach().requires_grad_(True) for network_pass in passes]
        seeds = [network_pass.seeds[0][1].flatten() for network_pass in passes]
        for kind in LOSSES:
            gradients = torch.autograd.grad(kind().d_loss(*scores), scores)
            if all(torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(gradients, seeds, strict=True)):
                yield kind()


def _difference(
    recorder: Recorder,
    trace: Trace,
    updates: Sequence[Sequence[Update]],
    loss: Loss,
    strategy: Strategy,
    rule: Rule,
    equal: float,
) -> float | None:
    """Run a strategy, and return the largest difference from the loop's weights after any iteration; None if it fails."""
    strategy = copy.deepcopy(strategy)  # some have a state
    worst = 0.0
    try:
        gan, reals = replay_gan(recorder, trace, [update for iteration in updates for update in iteration], loss)
        remaining = iter(reals)
        for iteration in updates:
            with torch.random.fork_rng(), torch.enable_grad():
                strategy(gan, remaining, d_steps=rule.d_steps, g_steps=rule.g_steps)
            difference = weight_difference(recorder, trace, iteration, gan)
            if difference is None or difference > equal:
                return difference
            worst = max(worst, difference)
    except Exception:  # the strategy refuses the loss, samples run out, or a foreign network fails
        return None
    return worst
