"""Which update strategy makes the updates of an iteration, told by the points at which its gradients are taken."""

from collections.abc import Sequence
from dataclasses import dataclass

from ganexp.watching.events import Event, Gradient, OptimizerStep, Write
from ganexp.watching.iterations import Story, Update, restores

CLASSES = {
    "alternating with the same fakes": ("detach", "retain_graph", "reuse_z"),
    "simultaneous": ("joint", "one_stage", "g_first"),
    "alternating with new fakes": ("resample", "g_first_resample"),
}
"""Strategies that make the same updates, or mirror images of them: see docs/strategies.md."""


@dataclass
class Rule:
    """An update rule, or the nearest one.

    Args:
        name: The strategy, or None if the loop follows none of ours, or if that cannot be told.
        d_steps, g_steps: Updates of each player in an iteration.
        wrappers: Wrappers around the strategy.
        nearest: The nearest strategy where there is no name.
        why: Where the loop departs from it, or why it cannot be told.
    """

    name: str | None
    d_steps: int = 1
    g_steps: int = 1
    wrappers: tuple[str, ...] = ()
    nearest: str | None = None
    why: str = ""

    @property
    def kin(self) -> str:
        """The class of equal strategies."""
        return next((kind for kind, names in CLASSES.items() if self.name in names), "")

    @property
    def command(self) -> str:
        """The command line that trains by this rule."""
        steps = [f"{name}={count}" for name, count in (("d_steps", self.d_steps), ("g_steps", self.g_steps)) if count != 1]
        wrappers = [f"wrapper=[{','.join(self.wrappers)}]"] if self.wrappers else []
        return " ".join(["python train.py", f"strategy={self.name}", *steps, *wrappers])


def rule(story: Story, events: Sequence[Event]) -> Rule:
    """Name the rule of one iteration. Equality of numbers is checked elsewhere."""
    updates = [story.update(one) for one in events if isinstance(one, OptimizerStep) and one.player.role in ("G", "D")]
    by_role = {role: [one for one in updates if one.role == role] for role in "DG"}
    if not by_role["D"] or not by_role["G"]:
        return Rule(None, why=f"only {'G' if by_role['G'] else 'D'} moves" if updates else "no optimiser makes a step")
    n, m = (max(_counts(by_role[role])) for role in "DG")
    known = _by_hand(story, events, updates, n, m)
    if known is not None:
        return known
    if any(not one.fake for one in updates):
        return Rule(None, n, m, nearest=None, why="a player moves without having seen fakes through D")
    d_first = updates[0].role == "D"
    first, second = ("D", "G") if d_first else ("G", "D")
    place = next(i for i, one in enumerate(updates) if one.role == second)
    before = [one for one in updates[:place] if one.role == first]
    pair = {first: before[-1], second: updates[place]}
    found = _of_pair(story, pair["D"], pair["G"], d_first=d_first)
    wrappers = ("replay",) * _older(story, events, by_role["D"]) + ("lookahead",) * _slow(story, events)
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
        return Rule(None, nearest="g_first_resample", why="D sees the same latents again, generated by the moved G")
    if any(story.place[one] < story.place[g.step] for one in d.made):
        return Rule(None, nearest="g_first", why="D sees other fakes than G, made before G moved")
    return Rule("g_first_resample")


def _moved(story: Story, role: str, d: Update, g: Update) -> bool:
    """Return whether D has moved between the scores that D learnt from and those that G learnt from."""
    own = [n for n, one in story.players.items() if one.role == role]
    return any(max(b.steps.get(n, 0) for b in g.fake) > max(a.steps.get(n, 0) for a in d.fake + d.real) for n in own)


def _older(story: Story, events: Sequence[Event], updates: Sequence[Update]) -> bool:
    """Return whether D sees fakes of earlier iterations."""
    here = {*events}
    return any(one not in here for update in updates for one in update.made)


def _slow(story: Story, events: Sequence[Event]) -> bool:
    """Return whether the weights of both players are written by hand between two iterations."""
    return _between(story, events) >= {"D", "G"}


def _between(story: Story, events: Sequence[Event]) -> set[str]:
    """Return the players whose weights are replaced by hand, and not on the way to a step."""
    written = [one for one in events if isinstance(one, Write) and "copy" in one.operation]
    return {one.player.role for one in written if not restores(story, events, one)}


def _by_hand(story: Story, events: Sequence[Event], updates: Sequence[Update], n: int, m: int) -> Rule | None:
    """Name what steps alone do not show: looking ahead, and gradients of gradients by weights."""
    weights = {id(p) for one in story.players.values() for p in one.parameters()}
    if any(isinstance(one, Gradient) and one.second and one.by & weights for one in events):
        why = "it differentiates gradients by the weights, as consensus, jare, symplectic, unrolled and others do"
        return Rule(None, n, m, why=why)
    writes = [one for one in events if isinstance(one, Write) and restores(story, events, one)]
    back = {one.player.role for one in writes}
    if back >= {"D", "G"}:
        restored = min(story.place[one] for one in writes)
        ahead, after = ([one for one in updates if (story.place[one.step] < restored) is early] for early in (True, False))
        if {one.role for one in ahead} == {one.role for one in after} == {"D", "G"} and len(updates) == 4:
            begun = {*events}
            past = not any(g in begun for one in ahead for g in one.gradients)
            return Rule("past_extragradient" if past else "extragradient")
        return Rule(None, n, m, why="weights of both players are put back by hand, as lookahead and extragradient do")
    back |= _between(story, events)
    if len(back & {"D", "G"}) == 1:
        (who,) = back & {"D", "G"}
        return Rule(None, n, m, why=f"weights of {who} are put back by hand, as unrolled steps are")
    return None
