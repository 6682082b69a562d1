"""Which of several strategies makes a loop's updates, where the trace does not tell them apart: each is run and compared.

These strategies take gradients at other weights, or of gradients, so that the loss must be known beyond its gradient at one
point. It is looked for among ganexp's losses, by its gradient by D's scores.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence

import torch

import ganexp.losses
from ganexp.losses import Loss
from ganexp.strategies import Strategy
from ganexp.watching.again import again, unfit
from ganexp.watching.check import difference
from ganexp.watching.events import Event
from ganexp.watching.iterations import Story, Update
from ganexp.watching.recorder import Recorder
from ganexp.watching.rule import Rule

_every: list[type[Loss]] = [getattr(ganexp.losses, name) for name in ganexp.losses.__all__ if name != "Loss"]
LOSSES = [one for one in _every if "logit" in one.accepts and not one.reads]
"""Losses of logits alone, which are tried with their defaults."""

EQUAL = {torch.float64: 1e-8, torch.float32: 1e-3}
"""Relative difference of updates up to which rounding explains it."""


def told(
    recorder: Recorder, story: Story, turns: Sequence[Sequence[Event]], rule: Rule, known: Mapping[str, Strategy]
) -> tuple[dict[str, float], str]:
    """Return the strategies that make a loop's updates in its first two iterations, or in words why there are none.

    Those that come closest are returned, with the difference of the weights relative to the largest update: several if rounding
    hides which of them it is.
    """
    updates = [story.updates(one) for one in turns[:2]]
    why = unfit(recorder, story, updates[0] + updates[-1]) or recorder.unlike
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
    found: dict[str, float] = {}
    for loss in losses:
        for name in ("joint", *rule.candidates):
            off = _compared(recorder, story, updates, loss, known[name], rule, equal)
            if off is not None and off <= equal:
                found[name] = min(off, found.get(name, off))
    if not found:
        return {}, "with its default settings, none of them makes these updates"
    return {name: off for name, off in found.items() if off <= max(10 * min(found.values()), equal / 10)}, ""


def _losses(recorder: Recorder, updates: Sequence[Update]) -> Iterator[Loss]:
    """Yield the losses whose gradient by D's scores is that of the loop, where D learns first."""
    d = next(one for one in updates if one.role == "D")
    seen = (d.real[0], d.fake[0])
    discriminator = copy.deepcopy(recorder.snapshots.copies[seen[0].network][0])  # type: ignore[index]
    with torch.enable_grad():
        scores = [discriminator(*one.given).flatten().detach().requires_grad_(True) for one in seen]
        seeds = [one.seeds[0][1].flatten() for one in seen]
        for kind in LOSSES:
            by = torch.autograd.grad(kind().d_loss(*scores), scores)
            if all(torch.allclose(a, b, rtol=1e-3, atol=1e-6) for a, b in zip(by, seeds, strict=True)):
                yield kind()


def _compared(
    recorder: Recorder,
    story: Story,
    updates: Sequence[Sequence[Update]],
    loss: Loss,
    strategy: Strategy,
    rule: Rule,
    equal: float,
) -> float | None:
    """Return how far the weights are from the loop's after each of some iterations, at worst; None if it does not run."""
    strategy = copy.deepcopy(strategy)  # some remember what they did
    worst = 0.0
    try:
        gan, reals = again(recorder, story, [one for turn in updates for one in turn], loss)
        rest = iter(reals)
        for turn in updates:
            with torch.random.fork_rng(), torch.enable_grad():
                strategy(gan, rest, d_steps=rule.d_steps, g_steps=rule.g_steps)
            off = difference(recorder, story, turn, gan)
            if off is None or off > equal:
                return off
            worst = max(worst, off)
    except Exception:  # of a loss that it refuses, samples that run out, or anything in a foreign network
        return None
    return worst
