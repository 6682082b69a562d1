"""Writes an iteration in the letters of the strategies' table."""

from collections.abc import Mapping, Sequence

from ganexp.watching.events import Event, Gradient, NetworkPass, OptimizerStep, Write
from ganexp.watching.trace import Trace


def letters(trace: Trace, events: Sequence[Event]) -> str:
    """Return the letters of an iteration.

    `z` are new latents, `G` a pass of G, `r` and `f` D's scores of real samples and of fakes, `f'` of detached fakes, `rf` of
    both in one batch, and `p` of samples for a penalty alone. `D+` and `G+` are steps, `DG+` a step of both at once. A player's
    networks are numbered if there are several. `w(D)` is a write to weights outside the optimiser, `b!` a failed backward pass.
    """
    return " ".join(text for _, text in events_with_letters(trace, events))


def events_with_letters(trace: Trace, events: Sequence[Event], *, gradients: bool = False) -> list[tuple[Event, str]]:
    """Return the events of an iteration that have letters, each with its letters.

    With `gradients`, `b(DG)` is a backward pass that wrote gradients into D and G; `*` means that it kept the graph.
    """
    lettered_events: list[tuple[Event, str]] = []
    known: set[int] = set()
    before: Event | None = None
    for event in events:
        if isinstance(event, NetworkPass):
            lettered_events += [(event, text) for text in _pass(trace, event, known)]
        elif isinstance(event, OptimizerStep):
            last = before.player if isinstance(before, OptimizerStep) else None
            if last and {last.role, event.player.role} == {"D", "G"}:
                lettered_events[-1] = event, "DG+"
            elif last is None or last.role != event.player.role or last is event.player:
                lettered_events.append((event, f"{event.player.role}+"))
        elif isinstance(event, Write):
            lettered_events.append((event, f"w({event.player.role})"))
        elif isinstance(event, Gradient):
            if event.failed:
                lettered_events.append((event, "b!"))
            elif gradients:
                roles = "".join(sorted({trace.players[n].role for n in event.wrote}))
                lettered_events.append((event, f"b({roles})" + "*" * event.kept))
        before = event
    return lettered_events


def legend(trace: Trace, events: Sequence[Event], names: Mapping[int, str]) -> dict[str, str]:
    """Return what the numbered letters of an iteration stand for: networks, and optimisers of players beyond G and D.

    Args:
        trace: The trace.
        events: The events of the iteration.
        names: The loop's names by the `id` of networks and optimisers; where it has none, the class stands.
    """
    letters_of: dict[object, dict[str, None]] = {}
    for event, text in events_with_letters(trace, events):
        if isinstance(event, NetworkPass) and text.strip("'") not in ("z", "G", "r", "f", "rf", "p"):
            letters_of.setdefault(event.network, {})[text.strip("'")] = None
        elif isinstance(event, OptimizerStep) and event.player.role not in ("G", "D"):
            letters_of.setdefault(event.player.optimizer, {})[text] = None
    return {"/".join(texts): names.get(id(part), type(part).__name__) for part, texts in letters_of.items()}


def _pass(trace: Trace, network_pass: NetworkPass, known: set[int]) -> list[str]:
    role = network_pass.player.role
    networks = [*dict.fromkeys(p.network for p in trace.passes.values() if p.player.role == role)]
    index = str(networks.index(network_pass.network) + 1) if len(networks) > 1 else ""
    if role == "G":
        new = not network_pass.of and network_pass.latents not in known
        known.add(network_pass.latents)
        return ["z"] * new + [f"G{index}"]
    if role != "D":
        return [f"{role}{index}"]
    if trace.only_penalty(network_pass):
        return [f"p{index}"]
    if not trace.is_fake(network_pass):
        return [f"r{index}"]
    attached = any(trace.players[n].role == "G" for n in network_pass.attached)
    return [("rf" if network_pass.mixed else "f") + index + ("" if attached else "'")]
