"""The life of each graph in an iteration of a watched loop."""

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ganexp.watching import WatchedLoop
from ganexp.watching.events import Gradient, NetworkPass
from ganexp.watching.letters import events_with_letters
from ganexp.watching.report import short

COLORS = {"G": "tab:green", "r": "tab:blue", "f": "tab:orange", "p": "tab:purple"}
LABELS = {"G": "generate", "r": "score real samples", "f": "score fakes", "p": "for a penalty alone"}


def lives(loop: WatchedLoop) -> Figure:
    """Draw one bar for each pass with a graph, from the pass to the last backward pass that needs it."""
    assert loop.recorded is not None
    marks = events_with_letters(loop.recorded, loop.events, gradients=True)
    passes = [(place, one, text) for place, (one, text) in enumerate(marks) if isinstance(one, NetworkPass) and text != "z"]
    figure = Figure(figsize=(max(5.0, 0.55 * len(marks) + 1), 0.3 * len(passes) + 1.7), layout="constrained")
    axes = figure.subplots()
    for line, (place, one, text) in enumerate(passes):
        ends = [i for i, (other, _) in enumerate(marks) if isinstance(other, Gradient) and _needs(loop, other, one)]
        color = COLORS.get(text[0], "0.5")
        axes.plot(place + 0.5, line, marker="o", markersize=5, color=color)
        if one.graph and ends:
            axes.barh(line, max(ends) - place, left=place + 0.5, height=0.55, color=color, alpha=0.75)
    axes.set_xticks([i + 0.5 for i in range(len(marks))], [text for _, text in marks], family="monospace", fontsize=9)
    axes.set(xlim=(0, len(marks) + 0.3), ylim=(len(passes) - 0.4, -0.6), yticks=[])
    name = loop.rule or "no rule of ganexp's"
    axes.set_title(f"{name}, {short(loop.activations)}B kept at the peak", loc="left", fontsize=10, family="monospace")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    there = {text[0] for _, _, text in passes}
    handles = [Patch(color=color, label=f"{letter}  {LABELS[letter]}") for letter, color in COLORS.items() if letter in there]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _needs(loop: WatchedLoop, gradient: Gradient, network_pass: NetworkPass) -> bool:
    """Return whether a backward pass goes through a pass: through its scores, or through fakes that are attached to it."""
    if network_pass.number in gradient.of and network_pass.player.role != "G":
        return True
    assert loop.recorded is not None
    scored = (loop.recorded.passes[n] for n in gradient.of if n in loop.recorded.passes)
    return any(
        network_pass.number in p.of and id(network_pass.player.optimizer) in p.attached for p in scored
    ) or gradient.of == {network_pass.number}
