"""Checks that a named strategy makes a loop's updates: ganexp's own strategy runs from the same weights on the same batches.

The loss of a foreign loop is unknown. But at the point where it was differentiated, its gradient by D's scores is known, and a
loss that is linear in the scores, with that gradient, has the same gradients by the weights. If the strategy takes one of them
at another point or on other fakes than the loop, the weights after it differ.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.batch import Batch, Gradients, Objective
from ganexp.gan import GAN
from ganexp.losses import Loss
from ganexp.prior import Prior
from ganexp.strategies import detach, g_first, g_first_resample, joint, resample, retain_graph, reuse_z
from ganexp.watching.events import Event, NetworkPass, OptimizerStep, Write
from ganexp.watching.iterations import Story, Update
from ganexp.watching.recorder import Recorder
from ganexp.watching.rule import Rule

STRATEGIES: dict[str, Callable[..., None]] = {
    **{one.__name__: one for one in (detach, g_first, g_first_resample, joint, resample, retain_graph, reuse_z)},
    "one_stage": joint,  # the same updates, without a condition on the loss
}
"""What can be checked, by name."""


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


class Again(GAN):
    """A GAN whose latents, real samples and losses are those of a loop. Latents are numbers of passes of G."""

    def __init__(self, *args: Any, drawn: list[NetworkPass], clamp: tuple[Any, ...], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.drawn, self.clamp, self.turn = drawn, clamp, 0

    def sample(self) -> Batch:
        """Return the number of the next latents that the loop drew."""
        self.turn += 1
        return Batch(torch.tensor([self.turn - 1]))

    def generate(self, z: Batch) -> Batch:
        """Generate from what the loop's generator was given."""
        return Batch(self.generator(*self.drawn[int(z.values)].given))

    def score(self, batch: Batch, discriminator: Any) -> Tensor:
        """Score a batch, in any shape of scores, flattened."""
        scores: Tensor = discriminator(*(one.values if isinstance(one, Batch) else one for one in (batch, *batch.conditions)))
        return scores.flatten()

    def move_d(self, gradients: Gradients) -> Gradients:
        """Move D, and clip its weights as the loop does."""
        gradients = super().move_d(gradients)
        if self.clamp:
            with torch.no_grad():
                for p in self.d_parameters:
                    p.clamp_(*self.clamp)
        return gradients

    def _d_objective(self, x: Batch, fake: Batch, real_scores: Tensor, fake_scores: Tensor) -> Objective:
        return Objective(self.loss.d_loss(real_scores, fake_scores), real_scores, fake_scores)

    def _record_d(self, d: Objective, gradients: Gradients) -> None:
        pass

    def _record_g(self, g: Objective, gradients: Gradients) -> None:
        pass


def check(recorder: Recorder, story: Story, events: Sequence[Event], rule: Rule) -> tuple[float | None, str]:
    """Return the largest difference of weights, relative to the largest update, and in words what was found."""
    why = _unfit(recorder, story, events, rule)
    if why:
        return None, why
    updates = [story.update(one) for one in events if isinstance(one, OptimizerStep) and one.player.role in ("G", "D")]
    d, g = ([one for one in updates if one.role == role] for role in "DG")
    net_g, opt_g = recorder.copies[g[0].made[0].network]  # type: ignore[misc]
    net_d, opt_d = recorder.copies[d[0].fake[0].network]  # type: ignore[misc]
    start = {who: [p.detach().clone() for p in net.parameters()] for who, net in (("G", net_g), ("D", net_d))}
    loss = LinearLoss(
        [(_seed(one.real[0], one), _seed(one.fake[0], one)) for one in d], [_seed(one.fake[-1], one) for one in g]
    )
    if rule.name == "one_stage":
        ratios = [story.ratio(one) for one in g]
        loss.of_g = [seed if by is None else by * seed for by, seed in zip(ratios, loss.of_g, strict=True)]
    drawn: dict[int, NetworkPass] = {}
    for one in updates:
        drawn.setdefault(one.made[0].latents, one.made[0])
    clamp = next((one.bounds for one in events if isinstance(one, Write) and "clamp" in one.operation), ())
    try:
        gan = Again(
            net_g,
            net_d,
            loss,
            opt_g,
            opt_d,
            Prior(1),
            drawn=[*drawn.values()],
            clamp=clamp,
            batch_size=len(d[0].made[0].given[0]),
        )
        strategy = STRATEGIES[rule.name or ""]
        with torch.enable_grad():
            strategy(gan, _reals(d), d_steps=rule.d_steps, g_steps=rule.g_steps)
    except Exception as error:  # anything may be in a foreign network
        return None, f"not checked: its networks do not run again ({type(error).__name__})"
    worst = 0.0
    for who, net, player in (("G", net_g, g[0].step.player), ("D", net_d, d[0].step.player)):
        after = dict(zip(map(id, player.parameters()), recorder.after[id(player.optimizer)], strict=True))
        original = next(one for one, copied in recorder.copies.items() if copied and copied[0] is net)
        ends = [after.get(id(p)) for p in original.parameters()]
        if clamp and who == "D":
            ends = [one if one is None else one.clamp(*clamp) for one in ends]
        moved = max(float((end - p).abs().max()) for end, p in zip(ends, start[who], strict=True) if end is not None)
        off = max(
            float((end - p).detach().abs().max()) for end, p in zip(ends, net.parameters(), strict=True) if end is not None
        )
        worst = max(worst, off / moved if moved else off)
    return worst, ""


def _reals(updates: Sequence[Update]) -> Iterator[Batch]:
    for one in updates:
        yield Batch(one.real[0].given[0])


def _seed(one: NetworkPass, update: Update) -> Tensor:
    numbers = {g.number for g in update.gradients}
    seeds = [seed.flatten() for number, seed in one.seeds if number in numbers]
    if not seeds:
        raise LookupError("a pass without a gradient by its scores")
    return torch.stack(seeds).sum(0)


def _unfit(recorder: Recorder, story: Story, events: Sequence[Event], rule: Rule) -> str:
    """Return why a rule cannot be checked on a loop, empty if it can."""
    if any(one is None for one in recorder.copies.values()):
        return "not checked: its networks or optimisers cannot be copied"
    if recorder.changed:
        return "not checked: gradients are changed before a step, as clipping does"
    if recorder.random:
        return "not checked: a network draws random numbers, as dropout does"
    if any("spectral" in type(hook).__name__.lower() for copied in recorder.copies.values() for hook in _attached(copied)):
        return "not checked: spectral norm moves with each pass"
    if rule.wrappers:
        return "not checked: D sees fakes of earlier iterations"
    updates = [story.update(one) for one in events if isinstance(one, OptimizerStep) and one.player.role in ("G", "D")]
    if len({id(one.step.player) for one in updates}) != 2 or any(
        len({p.network for p in story.passes.values() if p.player.role == role}) != 1 for role in "DG"
    ):
        return "not checked: a player has several networks or optimisers"
    for one in updates:
        if any(g.through for g in one.gradients) or one.penalties:
            return f"not checked: {one.role} has a penalty, which is not recomputed"
        if rule.name != "one_stage" and any(
            story.passes[n].player.role != "D" for g in one.gradients for n in g.of if n in story.passes
        ):
            return f"not checked: {one.role}'s loss has terms besides D's scores"
        if len(one.fake) != 1 or (one.role == "D" and len(one.real) != 1) or len(one.made) != 1:
            return "not checked: an update sees several batches"
        if any(p.mixed or not p.whole for p in one.fake):
            return "not checked: what D scores is not the very batch that G made"
        if any(len(p.given or ()) != 1 for p in one.fake + one.real):
            return "not checked: D takes further arguments"
        if any(not any(n in {g.number for g in one.gradients} for n, _ in p.seeds) for p in one.fake):
            return "not checked: the gradient by D's scores was not seen"
    return ""


def _attached(copied: tuple[nn.Module, Any] | None) -> Iterator[object]:
    """Yield the modules of a network, parametrisations among them, and what is called before their passes."""
    for one in copied[0].modules() if copied else ():
        yield one
        yield from one._forward_pre_hooks.values()
