"""Checks that a named strategy makes a loop's updates: ganexp's own strategy runs from the same weights on the same batches.

The loss of a foreign loop is unknown. But at the point where it was differentiated, its gradient by D's scores is known, and a
loss that is linear in the scores, with that gradient, has the same gradients by the weights. If the strategy takes one of them
at another point or on other fakes than the loop, the weights after it differ.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.losses import Loss
from ganexp.strategies import Strategy
from ganexp.watching.again import Again, again, unfit
from ganexp.watching.events import Event, NetworkPass, Write
from ganexp.watching.iterations import Story, Update
from ganexp.watching.recorder import Recorder
from ganexp.watching.rule import Rule


class LinearLoss(Loss):
    """The seeds of a loop's losses times scores, update by update."""

    def __init__(self, of_d: list[tuple[Tensor, Tensor]], of_g: list[Tensor]) -> None:
        super().__init__()
        self.of_d, self.of_g = of_d, of_g
        self.moved_d = self.moved_g = 0

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        """Return the seeds of D's next update times its scores."""
        by_real, by_fake = self.of_d[min(self.moved_d, len(self.of_d) - 1)]
        self.moved_d += 1
        return (by_real * real).sum() + (by_fake * fake).sum()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        """Return the seeds of G's next update times its scores."""
        seeds = self.of_g[min(self.moved_g, len(self.of_g) - 1)]
        self.moved_g += 1
        return (seeds * fake).sum()


def check(
    recorder: Recorder, story: Story, events: Sequence[Event], rule: Rule, strategy: Strategy
) -> tuple[float | None, str]:
    """Return how far weights are from those of a strategy, relative to the largest update, and in words what was found."""
    updates = story.updates(events)
    why = unfit(recorder, story, updates) or _unlike(recorder, story, updates, rule) or _clipped_late(story, events, updates)
    if why:
        return None, f"not checked: {why}"
    d, g = ([one for one in updates if one.role == role] for role in "DG")
    clamp = next((one.bounds for one in events if isinstance(one, Write) and "clamp" in one.operation), ())
    try:
        loss = LinearLoss(
            [(_seed(one.real[0], one), _seed(one.fake[0], one)) for one in d], [_seed(one.fake[-1], one) for one in g]
        )
        if rule.name == "one_stage":
            ratios = [story.ratio(one) for one in g]
            loss.of_g = [seed if by is None else by * seed for by, seed in zip(ratios, loss.of_g, strict=True)]
        gan, reals = again(recorder, story, updates, loss, clamp=clamp)
        with torch.enable_grad():
            strategy(gan, iter(reals), d_steps=rule.d_steps, g_steps=rule.g_steps)
    except Exception as error:  # anything may be in a foreign network
        return None, f"not checked: its networks do not run again ({type(error).__name__})"
    return difference(recorder, story, updates, gan), ""


def difference(recorder: Recorder, story: Story, updates: Sequence[Update], gan: Again) -> float | None:
    """Return the largest difference of weights from the loop's after some updates, relative to the largest update."""
    end = recorder.snapshots.after(story.place[updates[-1].step])
    if end is None:
        return None
    worst = 0.0
    for role, network in (("G", gan.generator), ("D", gan.discriminator)):
        update = next(one for one in updates if one.role == role)
        original = (update.made if role == "G" else update.fake)[0].network
        copied = recorder.snapshots.copies[original]
        assert copied is not None
        player = update.step.player
        after = dict(zip(map(id, player.parameters()), end[id(player.optimizer)], strict=True))
        moved = off = 0.0
        for p, before, now in zip(original.parameters(), copied[0].parameters(), network.parameters(), strict=True):
            if id(p) in after:
                moved = max(moved, float((after[id(p)] - before.detach().cpu()).abs().max()))
                off = max(off, float((after[id(p)] - now.detach().cpu()).abs().max()))
        if off:
            worst = max(worst, off / moved if moved else math.inf)
    return worst


def _seed(one: NetworkPass, update: Update) -> Tensor:
    numbers = {g.number for g in update.gradients}
    seeds = [seed.flatten() for number, seed in one.seeds if number in numbers]
    if not seeds:
        raise LookupError("a pass without a gradient by its scores")
    return torch.stack(seeds).sum(0)


def _unlike(recorder: Recorder, story: Story, updates: Sequence[Update], rule: Rule) -> str:
    """Return why a rule would make other updates on a loop though the loop follows it; empty if it would not."""
    if recorder.unlike:
        return recorder.unlike
    if any(
        "spectral" in type(hook).__name__.lower() for copied in recorder.snapshots.copies.values() for hook in _attached(copied)
    ):
        return "spectral norm changes its power-iteration vectors in every forward pass"
    if {*rule.wrappers} - {"topk"}:
        return f"{' and '.join(rule.wrappers)} would have to be run, too"
    for one in updates:
        if rule.name != "one_stage" and any(
            story.passes[n].player.role != "D" for g in one.gradients for n in g.of if n in story.passes
        ):
            return f"{one.role}'s loss has terms besides D's scores"
        if len(one.fake) != 1 or (one.role == "D" and len(one.real) != 1) or len(one.made) != 1:
            return "an update sees several batches"
        if any(not any(n in {g.number for g in one.gradients} for n, _ in p.seeds) for p in one.fake):
            return "the gradient by D's scores was not seen"
    return ""


def _clipped_late(story: Story, events: Sequence[Event], updates: Sequence[Update]) -> str:
    """Return that G learns from D's weights before they are clipped, as where clipping begins D's next step."""
    clipped = [story.place[one] for one in events if isinstance(one, Write) and "clamp" in one.operation]
    for one in (passed for update in updates if update.role == "G" for passed in update.fake):
        moved = [story.place[d.step] for d in updates if d.role == "D" and story.place[d.step] < story.place[one]]
        if clipped and moved and not any(moved[-1] < place < story.place[one] for place in clipped):
            return "D's weights are clipped only after G has learnt from them"
    return ""


def _attached(copied: tuple[nn.Module, Any] | None) -> Iterator[object]:
    """Yield the modules of a network, parametrisations among them, and what is called before their passes."""
    for one in copied[0].modules() if copied else ():
        yield one
        yield from one._forward_pre_hooks.values()
