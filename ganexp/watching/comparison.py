"""Runs a named strategy from a loop's weights on its batches, and compares the resulting weights with the loop's.

The loss of a foreign loop is unknown, but its gradient with respect to D's scores was recorded. A loss that is linear in the
scores and has that gradient gives the same gradients of the weights. If the strategy takes a gradient at another point, or on
other fakes, than the loop does, the weights after it differ.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.losses import Loss
from ganexp.strategies import Strategy
from ganexp.watching.events import Event, NetworkPass, Write
from ganexp.watching.recorder import Recorder
from ganexp.watching.replay_gan import ReplayGAN, replay_gan, why_not_replayable
from ganexp.watching.rule import Rule
from ganexp.watching.trace import Trace, Update


class LinearLoss(Loss):
    """A loss that is linear in the scores: its gradients are those that were recorded for each update of a loop."""

    def __init__(self, d_seeds: list[tuple[Tensor, Tensor]], g_seeds: list[Tensor]) -> None:
        super().__init__()
        self.d_seeds, self.g_seeds = d_seeds, g_seeds
        self.d_updates = self.g_updates = 0

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        """Return the recorded gradients of D's next update times its scores."""
        real_seeds, fake_seeds = self.d_seeds[min(self.d_updates, len(self.d_seeds) - 1)]
        self.d_updates += 1
        return (real_seeds * real).sum() + (fake_seeds * fake).sum()

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        """Return the recorded gradients of G's next update times its scores."""
        seeds = self.g_seeds[min(self.g_updates, len(self.g_seeds) - 1)]
        self.g_updates += 1
        return (seeds * fake).sum()


def compare_updates(
    recorder: Recorder, trace: Trace, events: Sequence[Event], rule: Rule, strategy: Strategy
) -> tuple[float | None, str]:
    """Return the difference of a loop's weights from a strategy's, relative to the largest update, or why there is none."""
    updates = trace.updates(events)
    why = (
        why_not_replayable(recorder, trace, updates)
        or _why_not_comparable(recorder, trace, updates, rule)
        or _clipped_late(trace, events, updates)
    )
    if why:
        return None, f"not checked: {why}"
    d, g = ([update for update in updates if update.role == role] for role in "DG")
    clamp = next((event.bounds for event in events if isinstance(event, Write) and "clamp" in event.operation), ())
    try:
        loss = LinearLoss(
            [(_seed(update.real[0], update), _seed(update.fake[0], update)) for update in d],
            [_seed(update.fake[-1], update) for update in g],
        )
        if rule.name == "one_stage":
            ratios = [trace.ratio(update) for update in g]
            loss.g_seeds = [seed if by is None else by * seed for by, seed in zip(ratios, loss.g_seeds, strict=True)]
        gan, reals = replay_gan(recorder, trace, updates, loss, clamp=clamp)
        with torch.enable_grad():
            strategy(gan, iter(reals), d_steps=rule.d_steps, g_steps=rule.g_steps)
    except Exception as error:  # anything may be in a foreign network
        return None, f"not checked: its networks do not run again ({type(error).__name__})"
    return weight_difference(recorder, trace, updates, gan), ""


def weight_difference(recorder: Recorder, trace: Trace, updates: Sequence[Update], gan: ReplayGAN) -> float | None:
    """Return the largest difference of a GAN's weights from the loop's after its updates, relative to the largest update."""
    end = recorder.snapshots.after(trace.position[updates[-1].step])
    if end is None:
        return None
    worst = 0.0
    for role, network in (("G", gan.generator), ("D", gan.discriminator)):
        update = next(update for update in updates if update.role == role)
        original = (update.generations if role == "G" else update.fake)[0].network
        copied = recorder.snapshots.copies[original]
        assert copied is not None
        player = update.step.player
        after = dict(zip(map(id, player.parameters()), end[id(player.optimizer)], strict=True))
        largest_update = largest_difference = 0.0
        for p, before, now in zip(original.parameters(), copied[0].parameters(), network.parameters(), strict=True):
            if id(p) in after:
                largest_update = max(largest_update, float((after[id(p)] - before.detach().cpu()).abs().max()))
                largest_difference = max(largest_difference, float((after[id(p)] - now.detach().cpu()).abs().max()))
        if largest_difference:
            worst = max(worst, largest_difference / largest_update if largest_update else math.inf)
    return worst


def _seed(network_pass: NetworkPass, update: Update) -> Tensor:
    numbers = {g.number for g in update.gradients}
    seeds = [seed.flatten() for number, seed in network_pass.seeds if number in numbers]
    if not seeds:
        raise LookupError("a pass without a gradient by its scores")
    return torch.stack(seeds).sum(0)


def _why_not_comparable(recorder: Recorder, trace: Trace, updates: Sequence[Update], rule: Rule) -> str:
    """Return why the weights would differ from a strategy's even though the loop follows it; empty if they would not."""
    if recorder.not_repeatable:
        return recorder.not_repeatable
    if any(
        "spectral" in type(hook).__name__.lower() for copied in recorder.snapshots.copies.values() for hook in _attached(copied)
    ):
        return "spectral norm changes its power-iteration vectors in every forward pass"
    if {*rule.wrappers} - {"topk"}:
        return f"{' and '.join(rule.wrappers)} would have to be run, too"
    for update in updates:
        if rule.name != "one_stage" and any(
            trace.passes[n].player.role != "D" for g in update.gradients for n in g.of if n in trace.passes
        ):
            return f"{update.role}'s loss has terms besides D's scores"
        if len(update.fake) != 1 or (update.role == "D" and len(update.real) != 1) or len(update.generations) != 1:
            return "an update sees several batches"
        if any(not any(n in {g.number for g in update.gradients} for n, _ in p.seeds) for p in update.fake):
            return "the gradient by D's scores was not seen"
    return ""


def _clipped_late(trace: Trace, events: Sequence[Event], updates: Sequence[Update]) -> str:
    """Return that D's weights are clipped after G's update rather than after D's own; empty if they are not."""
    clipped = [trace.position[event] for event in events if isinstance(event, Write) and "clamp" in event.operation]
    for network_pass in (passed for update in updates if update.role == "G" for passed in update.fake):
        moved = [
            trace.position[d.step] for d in updates if d.role == "D" and trace.position[d.step] < trace.position[network_pass]
        ]
        if clipped and moved and not any(moved[-1] < place < trace.position[network_pass] for place in clipped):
            return "D's weights are clipped only after G has learnt from them"
    return ""


def _attached(copied: tuple[nn.Module, Any] | None) -> Iterator[object]:
    """Yield the modules of a network, including parametrisations, and their forward pre-hooks."""
    for module in copied[0].modules() if copied else ():
        yield module
        yield from module._forward_pre_hooks.values()
