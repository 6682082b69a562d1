"""Finds the faults of a loop: each has the line of the user's file, its effect on the training, and the remedy."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import nn

from ganexp.watching.events import DeadTerm, Gradient, NetworkPass, OptimizerStep, Player, Unowned, Write
from ganexp.watching.trace import Trace, Update


@dataclass(frozen=True)
class Fault:
    """A fault of a loop."""

    kind: str  # its name, for programs
    place: str  # `file:line`
    effect: str  # what the loop does, and what follows for the training
    remedy: str  # what to write instead

    def __str__(self) -> str:
        return f"{self.place}: {self.effect}; {self.remedy}"


KINDS = (
    *("freed", "in_place", "no_graph", "frozen", "eval", "other_loss", "accumulated", "same_loss", "stale", "stray_step"),
    *("no_gradient", "zero_gradient", "no_grad", "detached_scores", "dead_term", "not_finite", "never_moves"),
    *("no_optimizer", "in_none", "in_both", "same_latents", "put_back", "fake_unseen", "real_unseen", "others_samples"),
    *("same_way", "wrong_sign", "logits", "range", "detached_penalty", "mixed_batch_norm", "mixtures", "not_averaged"),
)
"""The kinds of faults; docs/watching.md says what each does to the training."""

LONG = 20
"""Steps of others, after which a player without a loss is not only waiting for its turn."""


def not_looked_at(trace: Trace, *, processes: int) -> dict[str, str]:
    """Return the kinds of faults that could not show in what was watched, each with the reason."""
    later = ("stale", "same_latents", "put_back")
    reasons = dict.fromkeys(later, "this needs two iterations") if len(trace.iterations()) < 2 else {}
    d_passes = [p for p in trace.passes.values() if p.player.role == "D"]
    if not any(score is not None for p in d_passes for _, _, score, _ in p.scores):
        no_scores = "D has no scores with gradients, one per sample or place"
        reasons |= dict.fromkeys(("same_way", "wrong_sign", "real_unseen"), no_scores)
    if not any(p.ends in ("tanh", "sigmoid") for p in trace.passes.values() if p.player.role == "G"):
        reasons["range"] = "G ends neither in tanh nor in a sigmoid"
    if not any(p.batch_norm for p in d_passes):
        reasons |= dict.fromkeys(("mixed_batch_norm", "mixtures"), "D has no batch norm")
    if processes == 1:
        reasons["not_averaged"] = "there is one process"
    return reasons


def faults(trace: Trace) -> list[Fault]:
    """Return the faults of a loop, each once, those of a kind by their first occurrence."""
    updates = trace.updates(trace.events)
    stray = _stray(trace, updates)
    further = "makes a further step along gradients of other steps, without a loss of its own"
    stray_steps = (Fault("stray_step", u.step.place, f"{u.role} {further}", "remove this step") for u in stray)
    updates = [update for update in updates if update not in stray]
    all_faults = [*_failed(trace), *stray_steps]
    for of_trace in (_of_steps, _penalties, _logits, _ownership, _never_moves):
        all_faults += of_trace(trace)
    for of_updates in (_along_the_other, _without_gradient, _used_again, _dead_terms, _latents, _modes, _mixed, _directions):
        all_faults += of_updates(trace, updates)
    for of_updates in (_unseen, _others_samples, _ranges, _not_averaged):
        all_faults += of_updates(trace, updates)
    return [*{(fault.kind, fault.place): fault for fault in reversed(all_faults)}.values()][::-1]


def _failed(trace: Trace) -> Iterator[Fault]:
    for gradient in trace.gradients.values():
        if "second time" in gradient.failed:
            effect = "this backward pass needs a graph that an earlier one has freed"
            remedy = "give D fake.detach() (strategy detach), or generate again (strategy reuse_z)"
            yield Fault("freed", gradient.place, effect, f"{remedy}, or keep the graph by retain_graph=True in the earlier one")
        elif "inplace" in gradient.failed or "in-place" in gradient.failed:
            positions = [trace.passes[n].position for p in gradient.of for n in (p, *trace.passes[p].of)]
            since = [s for s in trace.steps if positions and min(positions) < s.position < gradient.position]
            cause = f", at {since[-1].place} by a step of {since[-1].player.role}'s optimiser" if since else ""
            effect = f"this backward pass needs weights that have been changed since its forward pass{cause}"
            remedy = "score the fakes again after the step (strategy detach), or move the other player first (g_first)"
            yield Fault("in_place", gradient.place, effect, f"{remedy}, or run both backward passes before either step (joint)")
        elif "does not require grad" in gradient.failed:
            yield _no_graph(trace, gradient)


def _no_graph(trace: Trace, gradient: Gradient) -> Fault:
    before = [p for p in trace.passes.values() if p.position < gradient.position]
    last = [p for p in before if p.number in gradient.of] or before
    if last and last[-1].player.role == "D" and last[-1].frozen:
        return _frozen(last[-1])
    effect = "nothing that this loss depends on requires grad, as its samples are detached or were made under no_grad"
    return Fault("no_graph", gradient.place, effect, "score samples whose graph leads to the network that is to learn")


def _frozen(d_pass: NetworkPass) -> Fault:
    effect = "D's parameters have requires_grad=False in D's own step, so that D does not learn"
    return Fault("frozen", d_pass.place, effect, "call D.requires_grad_(True) before D's step")


def _stray(trace: Trace, updates: Sequence[Update]) -> list[Update]:
    """Return updates whose gradients are those of other steps, by players that have losses of their own at other steps."""
    fresh = _fresh(trace)
    written = {event.player for event in trace.events if isinstance(event, Write)}  # a look ahead may use gradients twice
    before = defaultdict[Player, set[int]](set)
    without_own, with_own = list[Update](), set[Player]()
    for update in updates:
        player = update.step.player
        earlier = before[player]
        others = {n for other in updates if other.role != update.role for n in fresh[other.step]}
        if fresh[update.step] - earlier - others:
            with_own.add(player)
        elif update.step.along and player not in written and not _reversed(trace, update):
            without_own.append(update)
        earlier |= fresh[update.step]
    return [update for update in without_own if update.step.player in with_own]


def _fresh(trace: Trace) -> dict[OptimizerStep, frozenset[int]]:
    """Return the gradients of each step that were computed since the steps before, or since the first of them in a row."""
    fresh: dict[OptimizerStep, frozenset[int]] = {}
    numbers, stepped = set[int](), False
    for event in trace.events:
        if isinstance(event, Gradient):
            numbers = {event.number} if stepped else numbers | {event.number}
            stepped = False
        elif isinstance(event, OptimizerStep):
            fresh[event], stepped = event.along & numbers, True
    return fresh


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
            if len(own) > 1:  # clearing between them would lose the first
                remedy = f"keep that pass out of {update.role}, by loss.backward(inputs=[*{other}.parameters()]) or by freezing"
            yield Fault("other_loss", update.step.place, effect, remedy)
        elif len(foreign) > 1 and any(u.role == other and u.step.along == update.step.along for u in updates):
            effect = "both players move along the sum of both losses, as both backward passes write into both networks"
            remedy = "take each gradient for its own network: loss.backward(inputs=[*network.parameters()]) (strategy joint)"
            yield Fault("accumulated", update.step.place, effect, remedy)
        elif len(foreign) == 1 and update.role == "G" and update.fake and not _reversed(trace, update):
            effect = "both players descend the same loss, so that they do not play against each other"
            remedy = "give each its own loss, or put a gradient reversal between G and D"
            ascends = update.step.ascends
            if any(u.role == other and u.step.along == update.step.along and u.step.ascends is ascends for u in updates):
                yield Fault("same_loss", update.step.place, effect, remedy)


def _reversed(trace: Trace, update: Update) -> bool:
    ratio = trace.ratio(update)
    return ratio is not None and float(ratio.mean()) < 0


def _without_gradient(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    moving = {update.step.place for update in updates if not update.step.empty and not update.step.zero}
    for update in updates:
        if not update.step.empty and (not update.step.zero or update.step.place in moving):
            continue  # a hinge that is met by a whole batch has a gradient of 0, and the loss reaches the parameters
        role = update.role
        before = [g for g in trace.gradients.values() if g.position < update.step.position]
        if before and any(before[-1].number in other.step.along for other in updates if other.role != role):
            before = []  # it belongs to the other player's step
        scored = [trace.passes[n] for n in (before[-1].of if before else ())]
        fakes = [p for p in scored if p.player.role == "D" and trace.is_fake(p)]
        generations = [trace.passes[n] for p in fakes for n in p.of if trace.passes[n].player.role == "G"]
        effect = f"{role} makes a step without any gradient"
        remedy = f"see that a loss reaches {role}'s parameters, and that zero_grad(), backward() and step() come in this order"
        if any(u.step.along and u.step.place != update.step.place for u in updates if u.step.player is update.step.player):
            remedy = "remove this step, or form a loss before it"
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


def _used_again(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    used: dict[object, set[int]] = {}
    for step in (update.step for update in updates):
        before = used.setdefault(step.player, set())
        along = {n for n in step.along if not trace.gradients[n].functional}
        if along & before and along - before:
            effect = f"{step.player.role}'s step uses a gradient of an earlier step again, as it was not cleared"
            which = "the first of its backward passes" if len(trace.own(step)) > 1 else "its backward pass"
            yield Fault("stale", step.place, effect, f"call zero_grad() of its optimiser before {which}")
        before |= step.along


def _dead_terms(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    for update in (update for update in updates if update.role == "G"):
        steps = [s for s in trace.steps if s.player is update.step.player and s.position < update.step.position]
        began = steps[-1].position if steps else 0
        for term in (trace.events[n] for gradient in update.gradients for n in gradient.dead):
            assert isinstance(term, DeadTerm)
            of = [trace.passes[n] for n in term.of]
            own = [p for p in of if p.player is update.step.player or (p.attached and trace.is_fake(p))]
            if any(p.position > began for p in own):  # a mean of earlier values is a constant on purpose
                effect = "a term of G's loss has no gradient, as it was computed under no_grad or from detached samples"
                yield Fault("dead_term", term.place, effect, "compute it from G's output, outside no_grad and without detach()")
        ends_in_d = {n for other in updates if other.role == "D" for n in other.step.along}
        read = {n for g in update.gradients if g.number not in ends_in_d for n in g.of}
        for p in (p for p in update.fake if p.number in read and not p.attached):
            if update.step.along and not update.step.zero:
                effect = "G's loss reads D's outputs for detached fakes here, so that this term of it has no gradient for G"
                yield Fault("dead_term", p.place, effect, "score the fakes again without detach() for G's step")


def _of_steps(trace: Trace) -> Iterator[Fault]:
    for step in trace.steps:
        role, back = step.player.role, step.put_back
        if not step.finite:
            effect = f"{role}'s gradient has NaN or infinite values, and this step puts them into its weights"
            yield Fault("not_finite", step.place, effect, "look for log(0), sqrt at 0, or a learning rate that is too high")
        # a look ahead uses its gradients after it has put weights back
        if back and step.along and all(trace.gradients[n].position > back.position for n in step.along):
            effect = f"{role}'s weights are put back to earlier ones here, and the momenta of {role}'s optimiser are not"
            remedy = f"put optimizer_{role}.state_dict() back with them, from a deep copy of the same time"
            yield Fault("put_back", back.place, effect, remedy)


def _latents(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    learnt = {generation for update in updates if update.role == "G" for generation in update.generations}
    first_iteration: dict[int, int] = {}
    for number, iteration in enumerate(trace.iterations()):
        for event in iteration:
            if event in learnt and not event.drew and first_iteration.setdefault(event.latents, number) != number:
                effect = "G is given the inputs of an earlier iteration again, so that it learns from these few only"
                remedy = "draw new latents, z = torch.randn(…), or take the next batch in each iteration"
                yield Fault("same_latents", event.place, effect, remedy)


def _modes(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    for d_pass in (p for update in updates if update.role == "D" for p in update.real + update.fake):
        if d_pass.has_modes and not d_pass.training and any(p.training for p in trace.passes.values()):
            effect = "D is in eval() mode in its own step, so that batch norm, dropout or spectral norm differ from training"
            yield Fault("eval", d_pass.place, effect, "call D.train() before D's step")
    for step in (step for step in trace.steps if step.player.role == "D" and (step.empty or step.zero)):
        before = [p for p in trace.passes.values() if p.player is step.player and p.position < step.position]
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
        effect = f"batch norm in D is fed {len(mixtures)} mixtures ({places}), so that it scores a sample in as many ways"
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
        if constant and any(trace.passes[n].player.role == "D" for n in gradient.of):
            effect = "the gradient penalty has no effect, as torch.autograd.grad keeps no graph without create_graph=True"
            yield Fault("detached_penalty", gradient.place, effect, "add create_graph=True to torch.autograd.grad")


def _directions(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    """Find losses of D and G that push the scores in the same direction and towards the same target.

    The direction alone is no fault: with the targets -1, 1 and 0 (Mao et al. 2017, LSGAN, equation 9), both losses push down
    the scores of fakes that lie above 0. Fakes are of one kind if they come through the same networks.
    """
    of_d, of_g = ([update for update in updates if update.role == role] for role in "DG")
    by_d = {n for update in of_d for n in _numbers(update)}
    alike: dict[nn.Module, list[bool]] = {}  # a classification of both, beside the score, pushes both alike
    for network, output in dict.fromkeys((p.network, n) for update in of_d for p in update.fake for _, n, *_ in p.scores):

        def pull(of: Sequence[Update], which: Callable[[NetworkPass], bool], without: set[int]) -> _Pull | None:
            passes = ((p, update) for update in of for p in update.real + update.fake if p.network is network)  # noqa: B023
            return _Pull.of([(p, _numbers(u) - without, u.step.ascends) for p, u in passes if which(p)], output)  # noqa: B023

        real, fake = pull(of_d, lambda p: not trace.is_fake(p), set()), pull(of_d, trace.is_fake, set())
        same = real is not None and fake is not None and real.up is fake.up and abs(real.beyond(fake)) < 1
        alike.setdefault(network, []).append(same)
        helps: dict[tuple[Player, frozenset[nn.Module]], bool] = {}
        scored = ((u.step.player, p) for u in of_g for p in u.fake if p.network is network)
        for player, kind in dict.fromkeys((player, _through(trace, p)) for player, p in scored):
            own = [update for update in of_g if update.step.player is player]
            wanted = pull(own, lambda p: _through(trace, p) == kind, by_d)  # noqa: B023
            against = pull(of_d, lambda p: _through(trace, p) == kind, set()) or fake  # noqa: B023
            if wanted is None or against is None:
                continue
            opposed = real is None or real.up is not against.up
            helps[player, kind] = opposed and wanted.up is against.up and wanted.beyond(against) > -1
        if real is None:
            learnt = [p for update in of_d for p in update.real + update.fake if p.network is network]
            alone = all(trace.is_fake(p) and not p.mixed and len({n for _, n, *_ in p.scores}) == 1 for p in learnt)
            if fake and helps and not any(helps.values()) and alone:  # others are given real samples in the same call
                effect = "D never learns from a real sample: all that its losses are formed on comes from G"
                yield Fault("real_unseen", learnt[0].place, effect, "give D real samples, with the other target label")
            continue
        for player, _ in [of for of, is_wrong in helps.items() if is_wrong]:
            first = next(u for u in of_g if u.step.player is player and any(p.network is network for p in u.fake))
            place, remedy = first.gradients[-1].place, "or swap its target labels"
            if all(helps.values()):
                effect = "G's loss pushes the scores of fakes the same way as D's, so that G helps D"
                yield Fault("same_way", place, effect, f"flip the sign of G's loss, {remedy}")
            else:
                alike_too = "pushes the scores of fakes the same way as D's loss, and others do not"
                effect = f"an adversarial term of this loss {alike_too}"
                yield Fault("wrong_sign", place, effect, f"flip the sign of that term, {remedy}")
    for network in (network for network, all_alike in alike.items() if all(all_alike)):
        first = next(update for update in of_d if any(p.network is network for p in update.fake))
        effect = "D's loss pushes the scores of fakes the same way as those of real samples, so that D does not tell them apart"
        yield Fault("same_way", first.gradients[-1].place, effect, "give real samples and fakes different target labels")


def _numbers(update: Update) -> set[int]:
    return {gradient.number for gradient in update.gradients}


def _through(trace: Trace, network_pass: NetworkPass) -> frozenset[nn.Module]:
    """Return the networks that the inputs of a pass come through."""
    return frozenset(source.network for source in trace.sources(network_pass.of))


@dataclass(frozen=True)
class _Pull:
    """The direction in which a loss pushes scores, and the score that it pushes them to."""

    up: bool
    target: float | None  # at which its gradient would be 0 if it were linear in the score; None if there is no such score

    @classmethod
    def of(cls, passes: Sequence[tuple[NetworkPass, set[int], bool]], output: int) -> "_Pull | None":
        """Return the pull on one output of passes, each given with the gradients that count, and whether the step ascends.

        None if scores are pushed both ways, if the output is no score, or if there are fewer than two scores.
        """
        pulls = [
            (score, -seed if ascends else seed)
            for d_pass, numbers, ascends in passes
            for number, of, score, seed in d_pass.scores
            if number in numbers and of == output
        ]
        if not pulls or any(score is None for score, _ in pulls):
            return None
        both = zip(*pulls, strict=True)
        scores, seeds = (torch.cat([tensor.flatten().cpu().double() for tensor in column]) for column in both)
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
    has_g = any(p.player.role == "G" for p in trace.passes.values())
    if learnt and has_g and not any(update.fake for update in learnt):
        effect = "D never learns from a fake: no output of G is among what D's losses are formed on"
        yield Fault("fake_unseen", learnt[0].step.place, effect, "give D what G has made, and not a constant or the noise")


def _others_samples(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    """Find a D of several, each with a G of its own, that learns from the samples of another."""
    of_d, of_g = ([update for update in updates if update.role == role] for role in "DG")
    passes = {role: [p for update in of for p in update.real + update.fake] for role, of in (("D", of_d), ("G", of_g))}
    makers: dict[tuple[str, nn.Module], set[nn.Module]] = {}
    for role in "DG":
        for p in passes[role]:
            makers.setdefault((role, p.network), set()).update(trace.passes[n].network for n in trace.fakes(p))
    for network in dict.fromkeys(p.network for p in passes["D"]):
        own, learnt = makers.get(("G", network), set()), makers["D", network]
        others = {judge: of for (role, judge), of in makers.items() if role == "G" and of and own and not of & own}
        if own and learnt and not learnt & own and any(learnt & of for of in others.values()):
            place = next(p.place for p in passes["D"] if p.network is network and trace.is_fake(p))
            effect = "this D learns from the fakes of a G that another D judges, and G's loss asks it about other fakes"
            yield Fault("others_samples", place, effect, "give each D the fakes of its own G")
        real = [p for p in passes["D"] if p.network is network and not trace.is_fake(p)]
        given = {p.first for p in trace.passes.values() if p.network in own}
        for other in others:
            theirs = {p.first for p in passes["D"] if p.network is other and not trace.is_fake(p)}
            fed = any(p.network in others[other] and own & _through(trace, p) for p in trace.passes.values())
            if fed and any(p.first in theirs & given for p in real):
                effect = "this D is given as real what its own G is given as sources, and what another D is given as real"
                yield Fault("others_samples", real[0].place, effect, "give this D real samples of the kind that its G makes")


def _logits(trace: Trace) -> Iterator[Fault]:
    for p in (p for p in trace.passes.values() if p.logits and p.player.role == "D"):
        effect = f"this loss takes D's outputs for logits, but D ends in a {p.ends}, so that its gradients are small"
        remedy = f"leave the {p.ends} out of D, or take a loss on probabilities"
        yield Fault("logits", p.logits, effect, remedy)


def _ranges(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    real = [p for update in updates if update.role == "D" for p in update.real]
    fake = [p for update in updates for p in update.fake]
    ends = {trace.passes[n].ends for p in fake for n in p.of if trace.passes[n].player.role == "G"}
    if not real or len(ends) != 1:
        return
    low, high, lowest = min(p.low for p in real), max(p.high for p in real), min(p.low for p in fake)
    where = f"real samples lie between {low:.3g} and {high:.3g}"
    if ends == {"tanh"} and low >= 0 > lowest and high > 0:
        remedy = "scale real samples to [-1, 1], as 2 * x - 1 does from [0, 1]"
        yield Fault("range", real[0].place, f"{where}, and G ends in tanh, whose outputs lie between -1 and 1", remedy)
    if ends == {"sigmoid"} and low < 0 <= lowest:
        effect = f"{where}, and G ends in a sigmoid, whose outputs lie between 0 and 1"
        yield Fault("range", real[0].place, effect, "end G in tanh, or scale real samples to [0, 1]")


def _never_moves(trace: Trace) -> Iterator[Fault]:
    used = {n for step in trace.steps for n in step.along}
    moving = {step.player for step in trace.steps}
    for number, player in trace.players.items():
        passes = [p for p in trace.passes.values() if p.player is player]
        if player in moving or not passes or not moving:
            continue
        role = player.role
        formed = [g for g in trace.gradients.values() if number in g.wrote and g.number not in used and not g.functional]
        first, last = (formed[end].position if formed else 0 for end in (0, -1))
        if any(first < step.position < last for step in trace.steps):
            effect = f"{role} does not move: its loss is formed here, and its optimiser makes no step in what was watched"
            yield Fault("never_moves", formed[0].place, effect, f"call optimizer_{role}.step() after this backward pass")
        elif not formed and any(p.seeds for p in passes) and len(trace.steps) >= LONG:
            effect = f"{role} does not move: in {len(trace.steps)} steps of other players, no loss of {role} was formed"
            yield Fault("never_moves", passes[0].place, effect, f"form {role}'s loss, and step its optimiser")


def _not_averaged(trace: Trace, updates: Sequence[Update]) -> Iterator[Fault]:
    for update in updates:
        passes = update.generations if update.role == "G" else update.real + update.fake
        why = {p.alone for p in passes if p.graph}
        if why and "" not in why:
            role = update.role
            effect = f"{role}'s gradients are not averaged over the processes, so that each trains a {role} of its own"
            inside = f"call the DistributedDataParallel wrapper in {role}'s step, and not the network inside it"
            remedy = inside if "inside" in why else f"wrap {role} in DistributedDataParallel, as the other player is"
            yield Fault("not_averaged", passes[0].place, effect, remedy)


def _ownership(trace: Trace) -> Iterator[Fault]:
    owners = defaultdict[int, set[str]](set)
    for player in trace.players.values():
        for p in player.parameters():
            owners[id(p)].add(player.role)
    for event in trace.events:
        if isinstance(event, Unowned) and not owners.keys() & {*map(id, event.network.parameters())} and event.stays:
            name = type(event.network).__name__
            effect = f"this {name} gets gradients from the loss at {event.loss}, and no optimiser has it"
            remedy = "give its parameters to an optimiser, or freeze it by requires_grad_(False) if it should stay as it is"
            yield Fault("no_optimizer", event.place, effect, remedy)
    stepped, last = {step.player: step for step in reversed(trace.steps)}, {step.player: step for step in trace.steps}
    if not {"D", "G"} <= {player.role for player in stepped}:
        for a, b in combinations(stepped, 2):
            in_turn = all(stepped[x].position < last[y].position for x, y in ((a, b), (b, a)))
            if a.ids == b.ids and in_turn:
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
