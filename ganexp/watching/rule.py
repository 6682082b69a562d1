"""Which update strategy makes the updates of an iteration, told by the points at which its gradients are taken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ganexp.strategies import Strategy
from ganexp.watching.events import AverageWrite, Event, Gradient, Write
from ganexp.watching.iterations import Story, Update, restores


@dataclass
class Rule:
    """An update rule, or the nearest one.

    Args:
        name: The strategy, or None if the loop follows none of ours, or if that cannot be told.
        d_steps, g_steps: Updates of each player in an iteration.
        wrappers: Wrappers around the strategy.
        nearest: The nearest strategy where there is no name.
        why: Where the loop departs from it, or why it cannot be told.
        candidates: Strategies that the trace does not tell apart, where it may be one of several.
    """

    name: str | None
    d_steps: int = 1
    g_steps: int = 1
    wrappers: tuple[str, ...] = ()
    nearest: str | None = None
    why: str = ""
    candidates: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command line that trains by this rule."""
        steps = [f"{name}={count}" for name, count in (("d_steps", self.d_steps), ("g_steps", self.g_steps)) if count != 1]
        wrappers = [f"wrapper=[{','.join(self.wrappers)}]"] if self.wrappers else []
        return " ".join(["python train.py", f"strategy={self.name}", *steps, *wrappers])

    def without_name(self, why: str) -> "Rule":
        """Return the rule as the nearest one of a loop that departs from it."""
        return Rule(None, self.d_steps, self.g_steps, nearest=self.name, why=why)


def rule(story: Story, events: Sequence[Event], known: Mapping[str, Strategy]) -> Rule:
    """Name the rule of one iteration, among strategies by name. Equality of numbers is checked elsewhere."""
    updates = [one for one in story.updates(events) if not one.regularises]
    by_role = {role: [one for one in updates if one.role == role] for role in "DG"}
    if not by_role["D"] or not by_role["G"]:
        return Rule(None, why=f"only {'G' if by_role['G'] else 'D'} moves" if updates else "no optimiser makes a step")
    n, m = (max(_counts(by_role[role])) for role in "DG")
    by_hand = _by_hand(story, events, updates, known, n, m)
    if by_hand is not None:
        return by_hand
    if any(passed.is_loss for one in updates for passed in one.real + one.fake):
        return Rule(None, n, m, why="a module of D's returns a loss, and what D scores inside it is not seen")
    if any(not one.fake for one in updates):
        return Rule(None, n, m, nearest=None, why="a player moves without having seen fakes through D")
    d_first = updates[0].role == "D"
    first, second = ("D", "G") if d_first else ("G", "D")
    place = next(i for i, one in enumerate(updates) if one.role == second)
    before = [one for one in updates[:place] if one.role == first]
    pair = {first: before[-1], second: updates[place]}
    found = _of_pair(story, pair["D"], pair["G"], d_first=d_first)
    wrappers = _wrappers(story, events, updates)
    for role in "DG":
        drawn = [frozenset(one.latents) for one in _merged(by_role[role])]
        if found.name and len({*drawn}) < len(drawn):
            return Rule(None, n, m, wrappers, found.name, f"further steps of {role} see the latents of an earlier one again")
    return Rule(found.name, n, m, wrappers, found.nearest, found.why)


def _counts(updates: Sequence[Update]) -> list[int]:
    players = [one.step.player for one in updates]
    return [players.count(one) for one in players]


def _merged(updates: Sequence[Update]) -> list[Update]:
    """Return the updates of the first optimiser of a role, which has the most steps."""
    most = max(_counts(updates))
    lead = next(one.step.player for one in updates if _counts(updates)[updates.index(one)] == most)
    return [one for one in updates if one.step.player is lead]


def _of_pair(story: Story, d: Update, g: Update, *, d_first: bool) -> Rule:
    """Name the rule by the two updates that meet: on which fakes, and at which weights, each gradient is taken."""
    same_fake = bool({*d.made} & {*g.made})
    same_z = bool(d.latents & g.latents)
    together = max(story.place[one] for one in d.gradients + g.gradients) < min(story.place[d.step], story.place[g.step])
    if together or (d_first and not _moved(story, "D", d, g)):
        if not same_fake:
            return Rule(
                None, nearest="joint", why="D and G see different fakes, and both gradients are taken at the old weights"
            )
        return Rule("one_stage" if {*d.gradients} & {*g.gradients} else "joint")
    if d_first:
        if same_fake:
            attached = any(story.players[n].role == "G" for one in d.fake for n in one.attached)
            return Rule("retain_graph" if attached else "detach")
        return Rule("reuse_z" if same_z else "resample")
    if same_fake:
        return Rule("g_first")
    if same_z:
        return Rule("g_first_reuse_z")
    if any(story.place[one] < story.place[g.step] for one in d.made):
        return Rule(None, nearest="g_first", why="D sees other fakes than G, made before G moved")
    return Rule("g_first_resample")


def _moved(story: Story, role: str, d: Update, g: Update) -> bool:
    """Return whether D has moved between the scores that D learnt from and those that G learnt from."""
    own = [n for n, one in story.players.items() if one.role == role]
    return any(max(b.steps.get(n, 0) for b in g.fake) > max(a.steps.get(n, 0) for a in d.fake + d.real) for n in own)


def _wrappers(story: Story, events: Sequence[Event], updates: Sequence[Update]) -> tuple[str, ...]:
    d, g = ([one for one in updates if one.role == role] for role in "DG")
    found = {
        "latent_step": any(made.moved for one in updates for made in one.made),
        "lookahead": _slow(story, events, updates),
        "replay": _older(story, events, d),
        "topk": any(by.best & {one.number for one in update.fake} for update in g for by in update.gradients),
    }
    return tuple(name for name, there in found.items() if there)


def averages(story: Story) -> set[str]:
    """Return the players all of whose weights are mixed into a third copy at once."""
    means = (one for one in story.events if isinstance(one, AverageWrite))
    return {one.player.role for one in means if one.count >= len(one.player.parameters())}


def _older(story: Story, events: Sequence[Event], updates: Sequence[Update]) -> bool:
    """Return whether D sees fakes of earlier iterations."""
    here = {*events}
    return any(one not in here for update in updates for one in update.made)


def _slow(story: Story, events: Sequence[Event], updates: Sequence[Update]) -> bool:
    """Return whether the weights of both players are replaced between two iterations, where both have averages."""
    inside, after = _written(story, events, updates)
    return not inside and after >= {"D", "G"} and averages(story) >= {"D", "G"}


def _written(story: Story, events: Sequence[Event], updates: Sequence[Update]) -> tuple[set[str], set[str]]:
    """Return whose weights are written by hand before the last step of an iteration, and after it; clipping aside."""
    begun = min((story.place[one] for one in story.passes.values()), default=0)  # before, networks are made
    end = story.place[updates[-1].step]
    writes = [one for one in events if isinstance(one, Write) and "clamp" not in one.operation and story.place[one] > begun]
    inside, after = (
        {one.player.role for one in writes if (story.place[one] < end) is early} & {"D", "G"} for early in (True, False)
    )
    return inside, after


def _by_hand(
    story: Story, events: Sequence[Event], updates: Sequence[Update], known: Mapping[str, Strategy], n: int, m: int
) -> Rule | None:
    """Name what steps alone do not show: looking ahead, and gradients of gradients by weights."""
    look_ahead = tuple(name for name, one in known.items() if one.looks_ahead)
    differentiate = tuple(name for name, one in known.items() if one.differentiates_gradients)
    if any(isinstance(one, Gradient) and one.second and one.by_weights for one in events):
        return Rule(None, n, m, why="it differentiates gradients by the weights", candidates=differentiate)
    inside, after = _written(story, events, updates)
    back = [one for one in events if isinstance(one, Write) and restores(story, events, one)]
    if {one.player.role for one in back} >= {"D", "G"}:
        restored = min(story.place[one] for one in back)
        ahead, rest = ([one for one in updates if (story.place[one.step] < restored) is early] for early in (True, False))
        if {one.role for one in ahead} == {one.role for one in rest} == {"D", "G"} and len(updates) == 4:
            begun = {*events}
            past = not any(g in begun for one in ahead for g in one.gradients)
            return Rule("past_extragradient" if past else "extragradient", candidates=look_ahead)
    if (inside or after) and not _slow(story, events, updates):
        who = " and ".join(sorted(inside or after))
        return Rule(None, n, m, why=f"weights of {who} are moved by hand", candidates=look_ahead)
    return None
