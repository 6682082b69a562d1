"""Runs a named strategy from a loop's weights on its batches, and compares the resulting weights with the loop's.

The loss of a foreign loop is unknown, but its gradient with respect to D's scores was recorded. A loss that is linear in the
scores and has that gradient gives the same gradients of the weights. If the strategy takes a gradient at another point, or on
other fakes, than the loop does, the weights after it differ.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ganexp.losses import Loss
from ganexp.strategies import Strategy
from ganexp.watching.events import NetworkPass, Write
from ganexp.watching.replay_gan import KeptTurns, replay_gan
from ganexp.watching.rule import Rule
from ganexp.watching.trace import Update

CLOSE = {torch.float64: 1e-6, torch.float32: 1e-2}
"""The largest relative difference of updates that rounding explains, by the dtype of the weights."""


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


def compare_updates(turns: KeptTurns, rule: Rule, strategy: Strategy) -> tuple[float | None, str]:
    """Return the difference of a loop's weights from a strategy's, relative to the largest update, or why there is none."""
    clippings = [event for event in turns.events if isinstance(event, Write) and "clamp" in event.operation]
    why = _why_not_comparable(turns, rule) or _clipped_late(turns, clippings)
    if why:
        return None, why
    d, g = ([update for update in turns.all_updates if update.role == role] for role in "DG")
    of_d = [(_seed(update.real[0], update), _seed(update.fake[0], update)) for update in d]
    loss = LinearLoss(of_d, [_seed(update.fake[-1], update) for update in g])
    if rule.name == "one_stage":
        ratios = [turns.trace.ratio(update) for update in g]
        loss.g_seeds = [seed if by is None else by * seed for by, seed in zip(ratios, loss.g_seeds, strict=True)]
    gan, reals = replay_gan(turns, loss, clamp=clippings[0].bounds if clippings else ())
    with torch.enable_grad():
        strategy(gan, iter(reals), d_steps=rule.d_steps, g_steps=rule.g_steps)
    difference = weight_difference(turns)
    varies = _why_it_varies(turns)
    if varies and difference > CLOSE.get(next(gan.generator.parameters()).dtype, 0.1):
        return None, varies
    return difference, ""


def weight_difference(turns: KeptTurns, turn: int = 0) -> float:
    """Return the largest difference of the weights from the loop's after one of its turns, relative to the largest update."""
    worst = 0.0
    for role in "GD":
        moved = {id(p) for optimizer in turns.optimizers(role) for group in optimizer.param_groups for p in group["params"]}
        largest_update = largest_difference = 0.0
        for p in turns.network(role).parameters():
            if id(p) in moved:
                after = turns.ends[turn].weights[id(p)].values
                largest_update = max(largest_update, float((after - turns.start.weights[id(p)].values).abs().max()))
                largest_difference = max(largest_difference, float((after - p.detach().cpu()).abs().max()))
        if largest_difference:
            worst = max(worst, largest_difference / largest_update if largest_update else math.inf)
    return worst


def _seed(network_pass: NetworkPass, update: Update) -> Tensor:
    numbers = {g.number for g in update.gradients}
    seeds = [seed.flatten() for number, seed in network_pass.seeds if number in numbers]
    if not seeds:
        raise LookupError("a pass without a gradient by its scores")
    return torch.stack(seeds).sum(0)


def _why_not_comparable(turns: KeptTurns, rule: Rule) -> str:
    """Return why the weights would differ from a strategy's even though the loop follows it; empty if they would not."""
    if turns.not_repeatable:
        return turns.not_repeatable
    if {*rule.wrappers} - {"topk"}:
        return f"{' and '.join(rule.wrappers)} would have to be run, too"
    for update in turns.all_updates:
        if rule.name != "one_stage" and any(turns.trace.passes[n].player.role != "D" for g in update.gradients for n in g.of):
            return f"{update.role}'s loss has terms besides D's scores"
        if len(update.fake) != 1 or (update.role == "D" and len(update.real) != 1) or len(update.generations) != 1:
            return "an update sees several batches"
        if any(not any(n in {g.number for g in update.gradients} for n, _ in p.seeds) for p in update.fake):
            return "the gradient by D's scores was not seen"
    return ""


def _clipped_late(turns: KeptTurns, clippings: Sequence[Write]) -> str:
    """Return that D's weights are clipped after G's update rather than after D's own; empty if they are not."""
    updates = turns.all_updates
    for network_pass in (passed for update in updates if update.role == "G" for passed in update.fake):
        moved = [d.step.position for d in updates if d.role == "D" and d.step.position < network_pass.position]
        if clippings and moved and not any(moved[-1] < write.position < network_pass.position for write in clippings):
            return "D's weights are clipped only after G has learnt from them"
    return ""


def _why_it_varies(turns: KeptTurns) -> str:
    """Return why a pass may give other outputs where it is repeated in another order; empty if it gives the same ones."""
    if turns.why_random:
        return turns.why_random
    modules = [module for role in "GD" for module in turns.network(role).modules()]  # some are parametrisations
    parts = [part for module in modules for part in (module, *module._forward_pre_hooks.values())]
    if any("spectral" in type(part).__name__.lower() for part in parts):
        return "spectral norm changes its power-iteration vectors in every forward pass"
    return ""
