"""Faults of a loop: each with the line of the user's file, what it does to training, and the remedy."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import nn

from ganexp.watching.events import Gradient, NetworkPass
from ganexp.watching.iterations import Story, Update


@dataclass(frozen=True)
class Fault:
    """A fault of a loop.

    Args:
        kind: Its name, for programs.
        place: `file:line`.
        effect: What happens, and what it does to the training.
        remedy: What to write instead.
    """

    kind: str
    place: str
    effect: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place}: {self.effect}; {self.remedy}"


def faults(story: Story) -> list[Fault]:
    """Return the faults of a loop, each once, in the order of their first occurrence by kind."""
    updates = [story.update(one) for one in story.steps]
    ours = [one for one in updates if one.role in ("G", "D")]
    found = [*_failed(story), *_along_the_other(story, ours), *_without_gradient(story, ours), *_used_again(story)]
    found += [*_not_finite(story), *_latents(story, ours), *_modes(story, ours), *_mixed(story, ours), *_penalties(story)]
    found += [*_same_way(story, ours), *_unseen(story, ours), *_ownership(story)]
    return [*{(one.kind, one.place): one for one in reversed(found)}.values()][::-1]


def _failed(story: Story) -> Iterator[Fault]:
    for one in story.gradients.values():
        if "second time" in one.failed:
            effect = "this backward pass needs a graph that an earlier one has freed"
            remedy = (
                "give D fake.detach() (strategy detach), or keep the graph with retain_graph=True in the first backward pass"
            )
            yield Fault("freed", one.place, effect, f"{remedy}, or generate again (strategy reuse_z)")
        elif "inplace" in one.failed or "in-place" in one.failed:
            seen = [story.place[story.passes[n]] for n in one.of if n in story.passes]
            since = [s for s in story.steps if seen and min(seen) < story.place[s] < story.place[one]]
            cause = f", at {since[-1].place} by a step of {since[-1].player.role}'s optimiser" if since else ""
            effect = f"this backward pass needs weights that have been changed since its forward pass{cause}"
            remedy = (
                "score the fakes again after the step (strategy detach), or run both backward passes before either step (joint)"
            )
            yield Fault("in_place", one.place, effect, f"{remedy}, or move the other player first (g_first)")
        elif "does not require grad" in one.failed:
            yield _no_graph(story, one)


def _no_graph(story: Story, one: Gradient) -> Fault:
    before = [p for p in story.passes.values() if story.place[p] < story.place[one]]
    last = [p for p in before if p.number in one.of] or before
    if last and last[-1].player.role == "D" and last[-1].frozen:
        return _frozen(last[-1])
    effect = "nothing that this loss depends on requires grad, as its samples are detached or were made under no_grad"
    return Fault("no_graph", one.place, effect, "score samples whose graph leads to the network that is to learn")


def _frozen(one: NetworkPass) -> Fault:
    effect = "D's parameters have requires_grad=False in D's own step, so that D does not learn"
    return Fault("frozen", one.place, effect, "call D.requires_grad_(True) before D's step")


def _along_the_other(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    along = {role: {n for one in updates if one.role == role for n in one.step.along} for role in "DG"}
    if any(g.functional and g.second and story.by_weights(g) for g in story.gradients.values()):
        return  # rules that differentiate gradients mix them on purpose
    for one in updates:
        other = "G" if one.role == "D" else "D"
        foreign, own = one.step.along & along[other], one.step.along - along[other]
        if not foreign:
            continue
        if own:
            source = story.gradients[min(foreign)]
            wrote = f"whose backward pass at {source.place} left gradients in {one.role}'s .grad"
            effect = f"{one.role}'s step also follows the gradient of {other}'s loss, {wrote}"
            remedy = f"call optimizer_{one.role}.zero_grad() just before the backward pass of {one.role}'s own loss"
            yield Fault("other_loss", one.step.place, effect, remedy)
        elif len(foreign) > 1 and any(u.role == other and u.step.along == one.step.along for u in updates):
            effect = "both players move along the sum of both losses, as both backward passes write into both networks"
            remedy = "take each gradient for its own network: loss.backward(inputs=[*network.parameters()]) (strategy joint)"
            yield Fault("accumulated", one.step.place, effect, remedy)
        elif len(foreign) == 1 and one.role == "G" and one.fake and not _reversed(story, one):
            effect = "both players descend the same loss, so that they do not play against each other"
            remedy = "give each its own loss, or put a gradient reversal between G and D"
            if any(u.role == other and u.step.along == one.step.along for u in updates):
                yield Fault("same_loss", one.step.place, effect, remedy)


def _reversed(story: Story, update: Update) -> bool:
    ratio = story.ratio(update)
    return ratio is not None and float(ratio.mean()) < 0


def _without_gradient(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    for one in updates:
        if not one.step.empty and not one.step.zero:
            continue
        role = one.role
        before = [g for g in story.gradients.values() if story.place[g] < story.place[one.step]]
        if before and any(before[-1].number in other.step.along for other in updates if other.role != role):
            before = []  # it was for the other player's step
        scored = [story.passes[n] for n in (before[-1].of if before else ()) if n in story.passes]
        fakes = [p for p in scored if p.player.role == "D" and story.is_fake(p)]
        made = [story.passes[n] for p in fakes for n in p.of if n in story.passes and story.passes[n].player.role == "G"]
        effect = f"{role} makes a step without any gradient"
        remedy = (
            f"check that a loss reaches {role}'s parameters, and that zero_grad(), backward() and step() come in this order"
        )
        if role == "G" and made and not any(p.graph for p in made):
            kind, effect = "no_grad", f"{effect}: its fakes were made under no_grad, at {made[-1].place}"
            remedy = "generate outside no_grad for G's step"
        elif role == "G" and fakes and not any(p.attached for p in fakes):
            kind, effect = "detached_scores", f"{effect}: its loss is formed on scores of detached fakes, at {fakes[-1].place}"
            remedy = "score the fakes again without detach() for G's step (strategy detach)"
        else:
            kind = "no_gradient" if one.step.empty else "zero_gradient"
            effect += "" if one.step.empty else " but 0"
        yield Fault(kind, one.step.place, effect, remedy)


def _used_again(story: Story) -> Iterator[Fault]:
    used: dict[object, set[int]] = {}
    for one in story.steps:
        before = used.setdefault(one.player, set())
        fresh = {n for n in one.along if not story.gradients[n].functional} - before
        again = {n for n in one.along & before if not story.gradients[n].functional}
        if again and fresh:
            effect = f"{one.player.role}'s step uses a gradient of an earlier step again, as it was not cleared"
            yield Fault("stale", one.place, effect, "call zero_grad() of its optimiser before its backward pass")
        before |= one.along


def _not_finite(story: Story) -> Iterator[Fault]:
    for one in story.steps:
        if not one.finite:
            effect = f"{one.player.role}'s gradient has NaN or infinite values, and this step puts them into its weights"
            yield Fault("not_finite", one.place, effect, "look for log(0), sqrt at 0, or a learning rate that is too high")


def _latents(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    learnt = {made for one in updates if one.role == "G" for made in one.made}
    seen: dict[int, int] = {}
    for number, iteration in enumerate(story.iterations()):
        for one in iteration:
            if one in learnt and not one.drew and seen.setdefault(one.latents, number) != number:
                effect = "G is given the inputs of an earlier iteration again, so that it learns from these few only"
                yield Fault(
                    "same_latents",
                    one.place,
                    effect,
                    "draw new latents, z = torch.randn(…), or take the next batch in each iteration",
                )


def _modes(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    for update in updates:
        if update.role != "D":
            continue
        for one in update.real + update.fake:
            if one.has_modes and not one.training and any(p.training for p in story.passes.values()):
                effect = (
                    "D is in eval() mode in its own step, so that batch norm, dropout or spectral norm is not that of training"
                )
                yield Fault("eval", one.place, effect, "call D.train() before D's step")
    for step in story.steps:
        if step.player.role != "D" or not (step.empty or step.zero):
            continue
        before = [p for p in story.passes.values() if p.player is step.player and story.place[p] < story.place[step]]
        if before and before[-1].frozen:
            yield _frozen(before[-1])


def _mixed(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    normalised = [p for p in story.passes.values() if p.batch_norm and p.player.role == "D" and p.training]
    mixtures: dict[str, NetworkPass] = {}
    for one in normalised:
        mixtures.setdefault(_mixture(story, one), one)
    remedy = "score real samples and fakes in two passes, or leave batch norm out of D"
    if len(mixtures) > 2:
        said = ", ".join(f"{kind} at {one.place}" for kind, one in mixtures.items())
        effect = (
            f"batch norm in D is fed {len(mixtures)} different mixtures ({said}), so that it scores a sample in as many ways"
        )
        yield Fault("mixtures", [*mixtures.values()][2].place, effect, remedy)
        return
    for one in normalised:
        if one.mixed:
            effect = "batch norm sees real samples and fakes in one batch, so that scores depend on the mixture"
            effect += ", and another pass has another mixture" * (len(mixtures) > 1)
            yield Fault("mixed_batch_norm", one.place, effect, remedy)


def _mixture(story: Story, one: NetworkPass) -> str:
    if one.mixed:
        return f"{one.mixed} % fakes"
    if not story.is_fake(one):
        return "real samples"
    made = any(one.first in story.passes[n].made for n in one.of)
    return "samples between them" if story.only_penalty(one) and not made else "fakes"


def _penalties(story: Story) -> Iterator[Fault]:
    used = {n for one in story.gradients.values() for n in one.through}
    for one in story.gradients.values():
        constant = one.functional and not one.second and one.number in used and not story.by_weights(one)
        if constant and any(story.passes[n].player.role == "D" for n in one.of if n in story.passes):
            effect = "the gradient penalty has no effect, as torch.autograd.grad keeps no graph without create_graph=True"
            yield Fault("detached_penalty", one.place, effect, "add create_graph=True to torch.autograd.grad")


def _same_way(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    """Compare what D's and G's losses want of the scores: in which direction they push, and towards what.

    The direction alone would tell too much: with targets -1, 1 and 0 (Mao et al. 2017, LSGAN, equation 9), both push down the
    scores of fakes that lie above 0.
    """
    of_d, of_g = ([one for one in updates if one.role == role] for role in "DG")
    by_d = {n for one in of_d for n in _numbers(one)}
    alike: dict[nn.Module, list[bool]] = {}  # a class that D is taught of both, beside a score, pulls both alike
    for network, output in dict.fromkeys((p.network, n) for one in of_d for p in one.fake for _, n, *_ in p.scores):
        real, fake = (
            _Pull.of([(p, _numbers(one)) for one in of_d for p in passes(one) if p.network is network], output)
            for passes in (lambda one: one.real, lambda one: one.fake)
        )
        same = real is not None and fake is not None and real.up is fake.up and abs(real.beyond(fake)) < 1
        alike.setdefault(network, []).append(same)
        wanted = _Pull.of([(p, _numbers(one) - by_d) for one in of_g for p in one.fake if p.network is network], output)
        if real is None or fake is None:
            continue
        if wanted is not None and real.up is not fake.up and wanted.up is fake.up and wanted.beyond(fake) > -1:
            first = next(one for one in of_g if any(p.network is network for p in one.fake))
            effect = "G's loss pushes the scores of fakes the same way as D's, so that G helps D"
            yield Fault("same_way", first.gradients[-1].place, effect, "flip the sign of G's loss, or swap its target labels")
    for network in (one for one, said in alike.items() if all(said)):
        first = next(one for one in of_d if any(p.network is network for p in one.fake))
        effect = "D's loss pushes the scores of fakes the same way as those of real samples, so that D does not tell them apart"
        yield Fault("same_way", first.gradients[-1].place, effect, "give real samples and fakes different target labels")


def _numbers(update: Update) -> set[int]:
    return {one.number for one in update.gradients}


@dataclass(frozen=True)
class _Pull:
    """Where a loss wants scores.

    Args:
        up: Whether it pushes them up.
        target: The score at which it would stop if its gradient were linear in the score; None if it would not stop.
    """

    up: bool
    target: float | None

    @classmethod
    def of(cls, passes: Sequence[tuple[NetworkPass, set[int]]], output: int) -> "_Pull | None":
        """Return the pull on one output of some passes, each with the gradients that count.

        None if they pull both ways, if the output is no score, or if there are fewer than two scores to tell from.
        """
        found = [
            (score, seed)
            for one, numbers in passes
            for number, of, score, seed in one.scores
            if number in numbers and of == output
        ]
        if not found or any(score is None for score, _ in found):
            return None
        scores, seeds = (torch.cat([one.flatten().double().cpu() for one in of]) for of in zip(*found, strict=True))
        scores, seeds = scores[seeds != 0], seeds[seeds != 0]  # a hinge's, where it does not pull
        mean = float(seeds.mean()) if len(seeds) > 1 else 0.0
        if not (mean and abs(mean) >= 0.5 * float(seeds.abs().mean())):  # nor if they are not finite
            return None
        off = scores - scores.mean()
        slope = float((off * seeds).sum() / off.square().sum()) if bool(off.any()) else 0.0
        stops = slope * float(off.abs().max()) > 1e-4 * abs(mean)
        return cls(mean < 0, float(scores.mean()) - mean / slope if stops else None)

    def beyond(self, other: "_Pull") -> float:
        """Return how much further in its direction it goes than another, in units of a fourth of 1 or of the larger target."""
        if self.target is None or other.target is None:
            return math.inf * ((self.target is None) - (other.target is None)) if self.target is not other.target else 0.0
        off = self.target - other.target if self.up else other.target - self.target
        return off / (0.25 * (1 + max(abs(self.target), abs(other.target))))


def _unseen(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    learnt = [one for one in updates if one.role == "D" and not one.step.empty]
    if learnt and any(p.player.role == "G" for p in story.passes.values()) and not any(one.fake for one in learnt):
        effect = "D never learns from a fake: no output of G is among what D's losses are formed on"
        yield Fault("fake_unseen", learnt[0].step.place, effect, "give D what G has made, and not a constant or the noise")


def _ownership(story: Story) -> Iterator[Fault]:
    owners: dict[int, set[str]] = {}
    for player in story.players.values():
        for p in player.parameters():
            owners.setdefault(id(p), set()).add(player.role)
    stepped, last = {one.player: one for one in reversed(story.steps)}, {one.player: one for one in story.steps}
    if not {"D", "G"} <= {one.role for one in stepped}:
        for a, b in combinations(stepped, 2):
            alike = {*map(id, a.parameters())} == {*map(id, b.parameters())}
            in_turn = all(story.place[stepped[x]] < story.place[last[y]] for x, y in ((a, b), (b, a)))
            if alike and in_turn:
                effect = "two optimisers move the same parameters, and none moves another network's"
                yield Fault("in_both", stepped[b].place, effect, "give each optimiser the parameters of its own networks")
    for player in story.players.values():
        if player in stepped and any(owners[id(p)] >= {"D", "G"} for p in player.parameters()):
            effect = "some parameters are in the optimisers of both players, so that each undoes what the other does"
            yield Fault("in_both", stepped[player].place, effect, "give each optimiser the parameters of its own networks")
            break
    for player in stepped:
        networks = [p.network for p in story.passes.values() if p.player is player]
        for network in dict.fromkeys(networks):
            left = [name for name, p in network.named_parameters() if id(p) not in owners and p.requires_grad]
            if left:
                effect = f"{len(left)} parameters of {player.role}, such as {left[0]}, are in no optimiser and stay as they are"
                yield Fault("in_none", stepped[player].place, effect, "make the optimiser from network.parameters()")
