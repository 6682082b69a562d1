"""An iteration in the letters of the strategies' table."""

from collections.abc import Sequence

from ganexp.watching.events import Event, Gradient, NetworkPass, OptimizerStep, Write
from ganexp.watching.iterations import Story


def trace(story: Story, events: Sequence[Event]) -> str:
    """Return the letters of an iteration.

    `z` new latents, `G` a generator's pass, `r` and `f` D's scores of real samples and of fakes, `f'` of detached fakes,
    `rf` of both in one batch, `p` of samples for a penalty alone, `D+` and `G+` steps, `DG+` where both step at once. Networks
    of one player are numbered if there are several. `w(D)` are weights that are written by hand, `b!` is a backward pass that
    failed.
    """
    return " ".join(text for _, text in lettered(story, events))


def lettered(story: Story, events: Sequence[Event], *, gradients: bool = False) -> list[tuple[Event, str]]:
    """Return the events of an iteration that have a letter, each with its letter.

    With `gradients`, `b(DG)` is a backward pass that wrote gradients into D and G; `*` says that it kept the graph.
    """
    found: list[tuple[Event, str]] = []
    known: set[int] = set()
    before: Event | None = None
    for one in events:
        if isinstance(one, NetworkPass):
            found += [(one, text) for text in _pass(story, one, known)]
        elif isinstance(one, OptimizerStep):
            if isinstance(before, OptimizerStep) and {before.player.role, one.player.role} == {"D", "G"}:
                found[-1] = one, "DG+"
            elif not isinstance(before, OptimizerStep) or before.player.role != one.player.role or before.player is one.player:
                found.append((one, f"{one.player.role}+"))
        elif isinstance(one, Write):
            found.append((one, f"w({one.player.role})"))
        elif isinstance(one, Gradient):
            if one.failed:
                found.append((one, "b!"))
            elif gradients:
                roles = "".join(sorted({story.players[n].role for n in one.wrote}))
                found.append((one, f"b({roles})" + "*" * one.kept))
        before = one
    return found


def _pass(story: Story, one: NetworkPass, known: set[int]) -> list[str]:
    role, index = one.player.role, _index(story, one)
    if role == "G":
        fed = any(n in story.passes for n in one.of)
        new = not fed and one.latents not in known
        known.add(one.latents)
        return ["z"] * new + [f"G{index}"]
    if role != "D":
        return [f"{role}{index}"]
    if story.only_penalty(one):
        return [f"p{index}"]
    if not story.is_fake(one):
        return [f"r{index}"]
    attached = any(story.players[n].role == "G" for n in one.attached)
    return [("rf" if one.mixed else "f") + index + ("" if attached else "'")]


def _index(story: Story, one: NetworkPass) -> str:
    networks = dict.fromkeys(p.network for p in story.passes.values() if p.player.role == one.player.role)
    return str([*networks].index(one.network) + 1) if len(networks) > 1 else ""
