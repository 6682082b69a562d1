"""Finds the faults of a loop: each has the line of the user's file, its effect on the training, and the remedy."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import nn

from ganexp.watching.events import Gradient, NetworkPass
from ganexp.watching.trace import Trace, Update


@dataclass(frozen=True)
class Fault:
    """A fault of a loop.

    Args:
        kind: Its name, for programs.
        place: `file:line`.
        effect: What the loop does, and what follows for the training.
        remedy: What to write instead.
    """

    kind: str
    place: str
    effect: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.effect}; {self.remedy}"


def faults(trace: Trace) -> list[Fault]:
    """Return the faults of a loop, each once, ordered by kind and then by their first occurrence."""
    updates = [trace.update(step) for step in trace.steps]
    updates_of_both = [update for update in updates if update.role in ("G", "D")]
    all_faults = [
        *_failed(trace),
        *_along_the_other(trace, updates_of_both),
        *_without_gradient(trace, updates_of_both),
        *_used_again(trace),
    ]
    all_faults += [
        *_not_finite(trace),
        *_latents(trace, updates_of_both),
        *_modes(trace, updates_of_both),
        *_mixed(trace, updates_of_both),
        *_penalties(trace),
    ]
    all_faults += [*_same_way(trace, updates_of_both), *_unseen(trace, updates_of_both), *_ownership(trace)]
    return [*{(fault.kind, fault.place): fault for fault in reversed(all_faults)}.values()][::-1]


def _failed(trace: Trace) -> Iterator[Fault]:
    for gradient in trace.gradients.values():
        if "second time" in gradient.failed:
            effect = "this backward pass needs a graph that an earlier one has freed"
            remedy = (
                "give D fake.detach() (strategy detach), or keep the graph with retain_graph=True in the first backward pass"
            )
            yield Fault("freed", gradient.place, effect, f"{remedy}, or generate again (strategy reuse_z)")
        elif "inplace" in gradient.failed or "in-place" in gradient.failed:
            positions = [trace.position[trace.passes[n]] for n in gradient.of if n in trace.passes]
            since = [s for s in trace.steps if positions and min(positions) < trace.position[s] < trace.position[gradient]]
            cause = f", at {since[-1].place} by a step of {since[-1].player.role}'s optimiser" if since else ""
            effect = f"this backward pass needs weights that have been changed since its forward pass{cause}"
            remedy = (
                "score the fakes again after the step (strategy detach), or run both backward passes before either step (joint)"
            )
            yield Fault("in_place", gradient.place, effect, f"{remedy}, or move the other player first (g_first)")
        elif "does not require grad" in gradient.failed:
            yield _no_graph(trace, gradient)


def _no_graph(trace: Trace, gradient: Gradient) -> Fault:
    before = [p for p in trace.passes.values() if trace.position[p] < trace.position[gradient]]
    last = [p for p in before if p.number in gradient.of] or before
    if last and last[-1].player.role == "D" and last[-1].frozen:
        return _frozen(last[-1])
    effect = "nothing that this loss depends on requires grad, as its samples are detached or were made under no_grad"
    return Fault("no_graph", gradient.place, effect, "score samples whose graph leads to the network that is to learn")


def _frozen(d_pass: NetworkPass) -> Fault:
    effect = "D's parameters have requires_grad=False in D's own step, so that D does not learn"
    return Fault("frozen", d_pass.place, effect, "call D.requires_grad_(True) before D's step")


def _along_the_other(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    along = {role: {n for update in updates if update.role == role for n in update.step.along} for role in "DG"}
    if any(g.functional and g.second and trace.by_weights(g) for g in trace.gradients.values()):
        return  # rules that differentiate gradients combine them on purpose
    for update in updates:
        other = "G" if update.role == "D" else "D"
        foreign, own = update.step.along & along[other], update.step.along - along[other]
        if not foreign:
            continue
        if own:
            source = trace.gradients[min(foreign)]
            wrote = f"whose backward pass at {source.place} left gradients in {update.role}'s .grad"
            effect = f"{update.role}'s step also follows the gradient of {other}'s loss, {wrote}"
            remedy = f"call optimizer_{update.role}.zero_grad() just before the backward pass of {update.role}'s own loss"
            yield Fault("other_loss", update.step.place, effect, remedy)
        elif len(foreign) > 1 and any(u.role == other and u.step.along == update.step.along for u in updates):
            effect = "both players move along the sum of both losses, as both backward passes write into both networks"
            remedy = "take each gradient for its own network: loss.backward(inputs=[*network.parameters()]) (strategy joint)"
            yield Fault("accumulated", update.step.place, effect, remedy)
        elif len(foreign) == 1 and update.role == "G" and update.fake and not _reversed(trace, update):
            effect = "both players descend the same loss, so that they do not play against each other"
            remedy = "give each its own loss, or put a gradient reversal between G and D"
            if any(u.role == other and u.step.along == update.step.along for u in updates):
                yield Fault("same_loss", update.step.place, effect, remedy)


def _reversed(trace: Trace, update: Update) -> bool:
    ratio = trace.ratio(update)
    return ratio is not None and float(ratio.mean()) < 0


def _without_gradient(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    for update in updates:
        if not update.step.empty and not update.step.zero:
            continue
        role = update.role
        before = [g for g in trace.gradients.values() if trace.position[g] < trace.position[update.step]]
        if before and any(before[-1].number in other.step.along for other in updates if other.role != role):
            before = []  # it belongs to the other player's step
        scored = [trace.passes[n] for n in (before[-1].of if before else ()) if n in trace.passes]
        fakes = [p for p in scored if p.player.role == "D" and trace.is_fake(p)]
        generations = [trace.passes[n] for p in fakes for n in p.of if n in trace.passes and trace.passes[n].player.role == "G"]
        effect = f"{role} makes a step without any gradient"
        remedy = (
            f"check that a loss reaches {role}'s parameters, and that zero_grad(), backward() and step() come in this order"
        )
        if role == "G" and generations and not any(p.graph for p in generations):
            kind, effect = "no_grad", f"{effect}: its fakes were made under no_grad, at {generations[-1].place}"
            remedy = "generate outside no_grad for G's step"
        elif role == "G" and fakes and not any(p.attached for p in fakes):
            kind, effect = "detached_scores", f"{effect}: its loss is formed on scores of detached fakes, at {fakes[-1].place}"
            remedy = "score the fakes again without detach() for G's step (strategy detach)"
        else:
            kind = "no_gradient" if update.step.empty else "zero_gradient"
            effect += "" if update.step.empty else " but 0"
        yield Fault(kind, update.step.place, effect, remedy)


def _used_again(trace: Trace) -> Iterator[Fault]:
    used: dict[object, set[int]] = {}
    for step in trace.steps:
        before = used.setdefault(step.player, set())
        fresh = {n for n in step.along if not trace.gradients[n].functional} - before
        repeated = {n for n in step.along & before if not trace.gradients[n].functional}
        if repeated and fresh:
            effect = f"{step.player.role}'s step uses a gradient of an earlier step again, as it was not cleared"
            yield Fault("stale", step.place, effect, "call zero_grad() of its optimiser before its backward pass")
        before |= step.along


def _not_finite(trace: Trace) -> Iterator[Fault]:
    for step in trace.steps:
        if not step.finite:
            effect = f"{step.player.role}'s gradient has NaN or infinite values, and this step puts them into its weights"
            yield Fault("not_finite", step.place, effect, "look for log(0), sqrt at 0, or a learning rate that is too high")


def _latents(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    learnt = {generation for update in updates if update.role == "G" for generation in update.generations}
    first_iteration: dict[int, int] = {}
    for number, iteration in enumerate(trace.iterations()):
        for event in iteration:
            if event in learnt and not event.drew and first_iteration.setdefault(event.latents, number) != number:
                effect = "G is given the inputs of an earlier iteration again, so that it learns from these few only"
                yield Fault(
                    "same_latents",
                    event.place,
                    effect,
                    "draw new latents, z = torch.randn(…), or take the next batch in each iteration",
                )


def _modes(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    for update in updates:
        if update.role != "D":
            continue
        for d_pass in update.real + update.fake:
            if d_pass.has_modes and not d_pass.training and any(p.training for p in trace.passes.values()):
                effect = (
                    "D is in eval() mode in its own step, so that batch norm, dropout or spectral norm is not that of training"
                )
                yield Fault("eval", d_pass.place, effect, "call D.train() before D's step")
    for step in trace.steps:
        if step.player.role != "D" or not (step.empty or step.zero):
            continue
        before = [p for p in trace.passes.values() if p.player is step.player and trace.position[p] < trace.position[step]]
        if before and before[-1].frozen:
            yield _frozen(before[-1])


def _mixed(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    normalised = [p for p in trace.passes.values() if p.batch_norm and p.player.role == "D" and p.training]
    mixtures: dict[str, NetworkPass] = {}
    for d_pass in normalised:
        mixtures.setdefault(_mixture(trace, d_pass), d_pass)
    remedy = "score real samples and fakes in two passes, or leave batch norm out of D"
    if len(mixtures) > 2:
        places = ", ".join(f"{kind} at {d_pass.place}" for kind, d_pass in mixtures.items())
        effect = (
            f"batch norm in D is fed {len(mixtures)} different mixtures ({places}), so that it scores a sample in as many ways"
        )
        yield Fault("mixtures", [*mixtures.values()][2].place, effect, remedy)
        return
    for d_pass in normalised:
        if d_pass.mixed:
            effect = "batch norm sees real samples and fakes in one batch, so that scores depend on the mixture"
            effect += ", and another pass has another mixture" * (len(mixtures) > 1)
            yield Fault("mixed_batch_norm", d_pass.place, effect, remedy)


def _mixture(trace: Trace, d_pass: NetworkPass) -> str:
    if d_pass.mixed:
        return f"{d_pass.mixed} % fakes"
    if not trace.is_fake(d_pass):
        return "real samples"
    is_generated = any(d_pass.first in trace.passes[n].outputs for n in d_pass.of)
    return "samples between them" if trace.only_penalty(d_pass) and not is_generated else "fakes"


def _penalties(trace: Trace) -> Iterator[Fault]:
    used = {n for gradient in trace.gradients.values() for n in gradient.through}
    for gradient in trace.gradients.values():
        constant = gradient.functional and not gradient.second and gradient.number in used and not trace.by_weights(gradient)
        if constant and any(trace.passes[n].player.role == "D" for n in gradient.of if n in trace.passes):
            effect = "the gradient penalty has no effect, as torch.autograd.grad keeps no graph without create_graph=True"
            yield Fault("detached_penalty", gradient.place, effect, "add create_graph=True to torch.autograd.grad")


def _same_way(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    """Find losses of D and G that push the scores in the same direction and towards the same target.

    The direction alone is no fault: with the targets -1, 1 and 0 (Mao et al. 2017, LSGAN, equation 9), both losses push down
    the scores of fakes that lie above 0.
    """
    of_d, of_g = ([update for update in updates if update.role == role] for role in "DG")
    by_d = {n for update in of_d for n in _numbers(update)}
    alike: dict[nn.Module, list[bool]] = {}  # a classification of both, beside the score, pushes both alike
    for network, output in dict.fromkeys((p.network, n) for update in of_d for p in update.fake for _, n, *_ in p.scores):
        real, fake = (
            _Pull.of([(p, _numbers(update)) for update in of_d for p in passes(update) if p.network is network], output)
            for passes in (lambda update: update.real, lambda update: update.fake)
        )
        same = real is not None and fake is not None and real.up is fake.up and abs(real.beyond(fake)) < 1
        alike.setdefault(network, []).append(same)
        wanted = _Pull.of(
            [(p, _numbers(update) - by_d) for update in of_g for p in update.fake if p.network is network], output
        )
        if real is None or fake is None:
            continue
        if wanted is not None and real.up is not fake.up and wanted.up is fake.up and wanted.beyond(fake) > -1:
            first = next(update for update in of_g if any(p.network is network for p in update.fake))
            effect = "G's loss pushes the scores of fakes the same way as D's, so that G helps D"
            yield Fault("same_way", first.gradients[-1].place, effect, "flip the sign of G's loss, or swap its target labels")
    for network in (network for network, all_alike in alike.items() if all(all_alike)):
        first = next(update for update in of_d if any(p.network is network for p in update.fake))
        effect = "D's loss pushes the scores of fakes the same way as those of real samples, so that D does not tell them apart"
        yield Fault("same_way", first.gradients[-1].place, effect, "give real samples and fakes different target labels")


def _numbers(update: Update) -> set[int]:
    return {gradient.number for gradient in update.gradients}


@dataclass(frozen=True)
class _Pull:
    """The direction in which a loss pushes scores, and the score that it pushes them to.

    Args:
        up: Whether it pushes them up.
        target: The score at which its gradient would be 0 if it were linear in the score; None if there is no such score.
    """

    up: bool
    target: float | None

    @classmethod
    def of(cls, passes: Sequence[tuple[NetworkPass, set[int]]], output: int) -> "_Pull | None":
        """Return the pull on one output of passes, each given with the numbers of the gradients that count.

        None if scores are pushed both ways, if the output is no score, or if there are fewer than two scores.
        """
        pulls = [
            (score, seed)
            for d_pass, numbers in passes
            for number, of, score, seed in d_pass.scores
            if number in numbers and of == output
        ]
        if not pulls or any(score is None for score, _ in pulls):
            return None
        scores, seeds = (
            torch.cat([tensor.flatten().double().cpu() for tensor in column]) for column in zip(*pulls, strict=True)
        )
        scores, seeds = scores[seeds != 0], seeds[seeds != 0]  # a hinge's, where it does not pull
        mean = float(seeds.mean()) if len(seeds) > 1 else 0.0
        if not (mean and abs(mean) >= 0.5 * float(seeds.abs().mean())):  # nor if they are not finite
            return None
        off = scores - scores.mean()
        slope = float((off * seeds).sum() / off.square().sum()) if bool(off.any()) else 0.0
        stops = slope * float(off.abs().max()) > 1e-4 * abs(mean)
        return cls(mean < 0, float(scores.mean()) - mean / slope if stops else None)

    def beyond(self, other: "_Pull") -> float:
        """Return how far its target lies beyond another's, in its direction and in units of (1 + the larger target)/4."""
        if self.target is None or other.target is None:
            return math.inf * ((self.target is None) - (other.target is None)) if self.target is not other.target else 0.0
        off = self.target - other.target if self.up else other.target - self.target
        return off / (0.25 * (1 + max(abs(self.target), abs(other.target))))


def _unseen(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    learnt = [update for update in updates if update.role == "D" and not update.step.empty]
    if learnt and any(p.player.role == "G" for p in trace.passes.values()) and not any(update.fake for update in learnt):
        effect = "D never learns from a fake: no output of G is among what D's losses are formed on"
        yield Fault("fake_unseen", learnt[0].step.place, effect, "give D what G has made, and not a constant or the noise")


def _ownership(trace: Trace) -> Iterator[Fault]:
    owners: dict[int, set[str]] = {}
    for player in trace.players.values():
        for p in player.parameters():
            owners.setdefault(id(p), set()).add(player.role)
    stepped, last = {step.player: step for step in reversed(trace.steps)}, {step.player: step for step in trace.steps}
    if not {"D", "G"} <= {player.role for player in stepped}:
        for a, b in combinations(stepped, 2):
            alike = {*map(id, a.parameters())} == {*map(id, b.parameters())}
            in_turn = all(trace.position[stepped[x]] < trace.position[last[y]] for x, y in ((a, b), (b, a)))
            if alike and in_turn:
                effect = "two optimisers move the same parameters, and none moves another network's"
                yield Fault("in_both", stepped[b].place, effect, "give each optimiser the parameters of its own networks")
    for player in trace.players.values():
        if player in stepped and any(owners[id(p)] >= {"D", "G"} for p in player.parameters()):
            effect = "some parameters are in the optimisers of both players, so that each undoes what the other does"
            yield Fault("in_both", stepped[player].place, effect, "give each optimiser the parameters of its own networks")
            break
    for player in stepped:
        networks = [p.network for p in trace.passes.values() if p.player is player]
        for network in dict.fromkeys(networks):
            left = [name for name, p in network.named_parameters() if id(p) not in owners and p.requires_grad]
            if left:
                effect = f"{len(left)} parameters of {player.role}, such as {left[0]}, are in no optimiser and stay as they are"
                yield Fault("in_none", stepped[player].place, effect, "make the optimiser from network.parameters()")
