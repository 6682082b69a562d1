"""Names the update strategy of an iteration by the weights and fakes at which its gradients are taken."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ganexp.strategies import Strategy
from ganexp.watching.events import AverageWrite, Event, Gradient, OptimizerStep, Write
from ganexp.watching.trace import Trace, Update, restores

BY_HAND = "by hand"
"""The end of the reason for a rule without a name if weights are moved outside an optimiser."""


@dataclass
class Rule:
    """The update rule of a loop, or the nearest strategy."""

    name: str | None  # the strategy; None if the loop follows none of ganexp's, or if the rule is not known
    d_steps: int = 1  # updates of each player in an iteration
    g_steps: int = 1
    wrappers: tuple[str, ...] = ()
    nearest: str | None = None  # the nearest strategy if there is no name
    why: str = ""  # how the loop differs from it, or why the rule is not known
    candidates: tuple[str, ...] = ()  # strategies that have the same trace
    settings: tuple[str, ...] = ()  # of the strategy, where they differ from its defaults
    earlier: str = ""  # what the loop did before it settled on this rule
    left_out: tuple[str, ...] = ()  # what the loop does beside this rule, which the command leaves out

    @property
    def command(self) -> str:
        """The command line of a run with this rule."""
        steps = [f"{name}={count}" for name, count in (("d_steps", self.d_steps), ("g_steps", self.g_steps)) if count != 1]
        wrappers = [f"wrapper=[{','.join(self.wrappers)}]"] if self.wrappers else []
        settings = [f"strategy.{setting}" for setting in self.settings]
        return " ".join(["ganexp train", f"strategy={self.name}", *settings, *steps, *wrappers])

    def without_name(self, why: str) -> "Rule":
        """Return a rule without a name, of which this strategy is the nearest."""
        return Rule(None, self.d_steps, self.g_steps, nearest=self.name, why=why, earlier=self.earlier)


def rule(trace: Trace, events: Sequence[Event], known: Mapping[str, Strategy]) -> Rule:
    """Name the rule of an iteration by its events. Weights are compared elsewhere; `known` are the strategies by name."""
    updates = trace.updates(events)
    plays = {update.role for update in updates if not update.regularises}
    updates = [update for update in updates if not (update.regularises and update.role in plays)]  # no steps for penalties
    by_role = {role: [update for update in updates if update.role == role] for role in "DG"}
    if not by_role["D"] or not by_role["G"]:
        return Rule(None, why=f"only {'G' if by_role['G'] else 'D'} moves" if updates else "no optimiser makes a step")
    n, m = (len(_of_one_player(by_role[role])) for role in "DG")
    if any(passed.is_loss for update in updates for passed in update.real + update.fake):
        return Rule(None, n, m, why="a module of D's returns a loss, and what D scores inside it is not seen")
    blind = next((update for update in updates if not update.fake), None)
    if blind is not None:
        return Rule(None, n, m, why=_unseen(blind))
    by_hand = _by_hand(trace, events, updates, known, n, m)
    if by_hand is not None:
        return by_hand
    before, after = next((a, b) for a, b in pairwise(updates) if a.role != b.role)
    d, g = (before, after) if before.role == "D" else (after, before)
    pair_rule = _of_pair(trace, d, g, d_first=before is d)
    wrappers = _wrappers(trace, events, updates)
    for role in "DG":
        drawn = [frozenset(update.latents) for update in _of_one_player(by_role[role])]
        if pair_rule.name and len({*drawn}) < len(drawn):
            why = f"further steps of {role} see the latents of an earlier one again"
            return Rule(None, n, m, wrappers, pair_rule.name, why)
    named = Rule(pair_rule.name, n, m, wrappers, pair_rule.nearest, pair_rule.why, left_out=_left_out(trace, events))
    own_reals = not {passed.first for passed in g.real} <= {passed.first for passed in d.real}
    if named.name in ("resample", "g_first_resample") and own_reals:
        named.settings = ("new_reals=true",)
    return named


def _unseen(update: Update) -> str:
    """Return why no fakes are seen in the gradient of a player that moves."""
    step = f"{update.role} moves at {update.step.place}"
    if update.role == "G":
        instead = "a copy of D's weights, as in unrolled or by functional_call, module.forward(…), or a plain function"
        return f"{step}, but what scores its fakes is not seen as D: {instead}"
    through = "they may have passed through NumPy, or a call of module.forward(…)"
    return f"{step}, but its loss has no fakes that are seen: {through}"


def _left_out(trace: Trace, events: Sequence[Event]) -> tuple[str, ...]:
    """Return what a loop does beside the updates that a strategy's name tells."""
    updates, beside = trace.updates(events), dict[str, None]()
    for update in updates:
        others = [trace.passes[n].player.role for g in update.gradients for n in g.of]
        lazily = update.regularises and any(other.role == update.role and other.fake for other in updates)
        if lazily or update.penalties:
            beside[f"{update.role}'s penalty on gradients (penalty=[…]), at {update.gradients[-1].place}"] = None
        elif update.role == "G" and {*others} - {"D"}:
            beside[f"further terms of G's loss (term=[…]), at {update.gradients[-1].place}"] = None
        for scored in update.fake if update.role == "D" else ():
            sources = [trace.passes[n] for n in scored.of]
            if any(scored.first in source.outputs and scored.input_memory not in source.output_memory for source in sources):
                pool = "a pool of old fakes (wrapper=[replay]), if there is one, which does not show before it is full"
                beside[f"{pool}: D is given copies of the fakes, at {scored.place}"] = None
    for event in events:
        if isinstance(event, Write) and "clamp" in event.operation:
            beside[f"the clipping of {event.player.role}'s weights (penalty=[weight_clipping]), at {event.place}"] = None
        elif isinstance(event, OptimizerStep) and event.player.role not in ("D", "G"):
            moved = {player.role for player in trace.players.values() if event.player.ids & player.ids} & {"D", "G"}
            whose = f"weights of {' and '.join(sorted(moved))} along a loss of its own" if moved else "a network of its own"
            beside[f"the step of a third optimiser at {event.place}, which moves {whose}"] = None
    return tuple(beside)


def settled(rules: Sequence[Rule], alone: Sequence[OptimizerStep]) -> Rule:
    """Return the rule of the last turns, with what came before it, given the rules of all turns and steps of one player before.

    There is no name if the last two turns differ, or if weights were moved by hand in any of them.
    """
    kinds = [(rule.name, rule.d_steps, rule.g_steps) for rule in rules]
    last = replace(rules[-1])
    last.wrappers = tuple(dict.fromkeys(name for of_turn in rules for name in of_turn.wrappers))
    last.left_out = tuple(dict.fromkeys(beside for of_turn in rules for beside in of_turn.left_out))
    differ = len({*kinds[-2:]}) > 1
    by_hand = [rule.why for rule in rules if rule.why.endswith(BY_HAND)]
    if by_hand and (differ or not last.candidates):
        return last.without_name(by_hand[-1])
    if differ:
        return Rule(None, nearest=last.name, why="its iterations differ: watch more of them")
    other = max((number for number, kind in enumerate(kinds, 1) if kind != kinds[-1]), default=0)
    phases = [f"the first {len(alone)} steps are of {alone[0].player.role} alone"] if alone else []
    if other:
        before = rules[other - 1]
        steps = "".join(f" {key}={count}" for key, count in (("d_steps", before.d_steps), ("g_steps", before.g_steps)))
        phases.append(f"iteration {other} and those before it differ, as {before.name or 'no strategy'}{steps}")
    last.earlier = "; ".join(phases)
    return last


def incomplete(trace: Trace) -> str:
    """Return why no turn of a loop is complete."""
    moving = [*{step.player.now: None for step in trace.steps}]
    hidden = next((player.outside for player in moving if player.outside), "")
    if hidden:
        return f"a network is not seen, as {hidden} is in no call of a module, but in forward(…) or a function: call the module"
    if len(moving) > 1 and not {player.role for player in moving} & {"G", "D"}:
        return "no network is given what another one makes, so that none is G and none D; or it went through NumPy"
    return "no iteration was complete: G and D must both make a step"


def no_game(trace: Trace) -> str:
    """Return why a loop is no game between a generator and a discriminator; empty if it may be one."""
    players = {step.player.now for step in trace.steps} | {network_pass.player.now for network_pass in trace.passes.values()}
    if len(players) == 1 and players.pop().role not in ("G", "D"):
        return "there is one optimiser, and so no game: G and D need an optimiser each"
    of_d = [trace.update[step] for step in trace.steps if step.player.role == "D"]
    batches = [Counter(passed.network for passed in update.real if passed.graph) for update in of_d]
    if of_d and not any(update.fake for update in of_d) and all(max(b.values(), default=0) == 1 for b in batches):
        return (
            "it is no GAN, but an actor and its critic or the like: the network that reads what another makes "
            "learns from one batch alone, and tells no two kinds of samples apart"
        )
    return ""


def _of_one_player(updates: Sequence[Update]) -> list[Update]:
    """Return the updates of the optimiser with the most steps among those of a role, the first if several have as many."""
    ((lead, _),) = Counter(update.step.player for update in updates).most_common(1)
    return [update for update in updates if update.step.player is lead]


def _of_pair(trace: Trace, d: Update, g: Update, *, d_first: bool) -> Rule:
    """Name the rule by two successive updates of D and G: on which fakes, and at which weights, each gradient is taken."""
    same_pass, same_fake = bool({*d.generations} & {*g.generations}), bool(d.fakes & g.fakes)
    together = max(gradient.position for gradient in d.gradients + g.gradients) < min(d.step.position, g.step.position)
    if together or (d_first and not _d_has_moved(trace, d, g)):
        if not same_fake:
            why = "D and G see different fakes, and both gradients are taken at the old weights"
            return Rule(None, nearest="joint", why=why)
        return Rule("one_stage" if {*d.gradients} & {*g.gradients} else "joint")
    if d_first:
        if same_pass:
            attached = any(trace.players[n].role == "G" for d_pass in d.fake for n in d_pass.attached)
            return Rule("retain_graph" if attached else "detach")
        return Rule("reuse_z" if d.latents & g.latents else "resample")
    if same_fake:
        return Rule("g_first")
    if d.latents & g.latents:
        return Rule("g_first_reuse_z")
    if any(generation.position < g.step.position for generation in d.generations):
        return Rule(None, nearest="g_first", why="D sees other fakes than G, made before G moved")
    return Rule("g_first_resample")


def _d_has_moved(trace: Trace, d: Update, g: Update) -> bool:
    """Return whether D has moved between the scores of D's update and those of G's update."""
    own = [n for n, player in trace.players.items() if player.role == "D"]
    return any(max(b.steps.get(n, 0) for b in g.fake) > max(a.steps.get(n, 0) for a in d.fake + d.real) for n in own)


def _wrappers(trace: Trace, events: Sequence[Event], updates: Sequence[Update]) -> tuple[str, ...]:
    d, g = ([update for update in updates if update.role == role] for role in "DG")
    here = {*events}
    used = {
        "latent_step": any(generation.moved for update in updates for generation in update.generations),
        "lookahead": any(_written(trace, events, updates)),  # since they are not moved by hand
        "replay": any(p not in here for update in d for p in update.generations),  # fakes of earlier iterations
        "topk": any(gradient.best & {d_pass.number for d_pass in update.fake} for update in g for gradient in update.gradients),
    }
    return tuple(name for name, is_used in used.items() if is_used)


def averages(trace: Trace) -> set[str]:
    """Return the players all of whose weights are averaged into a copy at once."""
    means = (write for write in trace.events if isinstance(write, AverageWrite))
    return {write.player.role for write in means if write.count >= len(write.player.parameters())}


def _written(trace: Trace, events: Sequence[Event], updates: Sequence[Update]) -> tuple[set[str], set[str]]:
    """Return whose weights are written before the last step of an iteration, and whose after it; clipping does not count."""
    begun = min((network_pass.position for network_pass in trace.passes.values()), default=0)  # then networks exist
    writes = [e for e in events if isinstance(e, Write) and "clamp" not in e.operation and e.position > begun]
    inside = {write.player.role for write in writes if write.position < updates[-1].step.position}
    after = {write.player.role for write in writes if write.position >= updates[-1].step.position}
    return inside & {"D", "G"}, after & {"D", "G"}


def _by_hand(
    trace: Trace, events: Sequence[Event], updates: Sequence[Update], known: Mapping[str, Strategy], n: int, m: int
) -> Rule | None:
    """Return the rule of a loop that looks ahead, moves weights itself or differentiates gradients; None for other loops."""
    look_ahead = tuple(name for name, strategy in known.items() if strategy.looks_ahead)
    differentiate = tuple(name for name, strategy in known.items() if strategy.differentiates_gradients)
    if any(isinstance(event, Gradient) and event.second and event.by_weights for event in events):
        return Rule(None, n, m, why="it differentiates gradients by the weights", candidates=differentiate)
    inside, after = _written(trace, events, updates)
    back = [event for event in events if isinstance(event, Write) and restores(events, event)]
    if {write.player.role for write in back} >= {"D", "G"}:
        restored = min(write.position for write in back)
        ahead, rest = ([update for update in updates if (update.step.position < restored) is early] for early in (True, False))
        if {update.role for update in ahead} == {update.role for update in rest} == {"D", "G"} and len(updates) == 4:
            past = {*events}.isdisjoint(g for update in ahead for g in update.gradients)
            return Rule("past_extragradient" if past else "extragradient", candidates=look_ahead)
    both = {"D", "G"}  # in lookahead, the weights of both have averages and are replaced between two iterations
    if (inside or after) and not (not inside and after >= both and averages(trace) >= both):
        who = " and ".join(sorted(inside or after))
        return Rule(None, n, m, why=f"weights of {who} are moved {BY_HAND}", candidates=look_ahead)
    return None
