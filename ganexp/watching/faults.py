"""Faults of a loop: each with the line of the user's file, what it does to training, and the remedy."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

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


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.flatten().double(), b.flatten().double(), dim=0))


def _without_gradient(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    for one in updates:
        if not one.step.empty and not one.step.zero:
            continue
        role = one.role
        before = [g for g in story.gradients.values() if story.place[g] < story.place[one.step]]
        scored = [story.passes[n] for n in (before[-1].of if before else ()) if n in story.passes]
        fakes = [p for p in scored if p.player.role == "D" and story.is_fake(p)]
        made = [story.passes[n] for p in fakes for n in p.of if n in story.passes and story.passes[n].player.role == "G"]
        effect, remedy = f"{role} makes a step without any gradient", f"check that a loss reaches {role}'s parameters"
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
    seen: dict[int, tuple[int, NetworkPass]] = {}
    for number, iteration in enumerate(story.iterations()):
        for one in iteration:
            if (
                isinstance(one, NetworkPass)
                and one.player.role == "G"
                and not any(n in story.passes for n in one.of)
                and one.graph
            ):
                first, _ = seen.setdefault(one.latents, (number, one))
                if first != number:
                    effect = "G is given the latents of an earlier iteration again, so that it learns samples of these few only"
                    yield Fault("same_latents", one.place, effect, "draw new latents in each iteration: z = torch.randn(…)")


def _modes(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    for update in updates:
        if update.role != "D":
            continue
        for one in update.real + update.fake:
            if not one.training and any(p.training for p in story.passes.values()):
                effect = "D is in eval() mode in its own step, so that batch norm uses old statistics and dropout is off"
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
    made = any(one.latents in story.passes[n].made for n in one.of)
    return "samples between them" if story.only_penalty(one) and not made else "fakes"


def _penalties(story: Story) -> Iterator[Fault]:
    used = {n for one in story.gradients.values() for n in one.through}
    for one in story.gradients.values():
        constant = one.functional and not one.second and one.number in used and not story.by_weights(one)
        if constant and any(story.passes[n].player.role == "D" for n in one.of if n in story.passes):
            effect = "the gradient penalty has no effect, as torch.autograd.grad keeps no graph without create_graph=True"
            yield Fault("detached_penalty", one.place, effect, "add create_graph=True to torch.autograd.grad")


def _same_way(story: Story, updates: Sequence[Update]) -> Iterator[Fault]:
    """Compare what D's loss and G's loss want of the scores of fakes."""
    for d, g in zip(*([one for one in updates if one.role == role] for role in "DG"), strict=False):
        if {*d.gradients} & {*g.gradients}:
            continue
        real, of_d, of_g = (_wanted(passes, one) for passes, one in ((d.real, d), (d.fake, d), (g.fake, g)))
        if real is None or of_d is None or of_g is None or of_d.shape != of_g.shape or not of_g.any():
            continue
        if float(real.mean()) * float(of_d.mean()) < 0 and _cosine(of_d, of_g) > 0.95:
            effect = "G's loss pulls the scores of fakes the same way as D's, so that G helps D"
            yield Fault("same_way", g.gradients[-1].place, effect, "flip the sign of G's loss, or swap its target labels")


def _wanted(passes: Sequence[NetworkPass], update: Update) -> Tensor | None:
    """Return the gradient of an update's own losses by the scores of its last pass."""
    numbers = {one.number for one in update.gradients}
    seeds = [seed for one in passes[-1:] for number, seed in one.seeds if number in numbers]
    return seeds[-1].flatten() if seeds else None


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
    stepped = {one.player: one for one in reversed(story.steps)}
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
