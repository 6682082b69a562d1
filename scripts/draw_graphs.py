"""Draw, for each strategy, which autograd graph is alive when: measured, not sketched.

    python scripts/draw_graphs.py --output docs/graphs.png

One iteration of each strategy runs with hooks on everything that autograd saves. Every pass through a network owns
what it saved; its bar spans from that pass to the moment when the last of it is freed. A pass without a bar built no graph.
"""

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from ganexp import GAN, Prior, strategies
from ganexp.gan import Objective
from ganexp.losses import SoftmaxGAN
from ganexp.networks import MLPDiscriminator, MLPGenerator
from ganexp.training.trainer import Strategy

COLORS = {"G": "tab:green", "r": "0.55", "f": "tab:orange"}
LABELS = {"G": "generate", "r": "score real images", "f": "score fakes"}
STEPS = "D+  update D        G+  update G        DG+  update both        a dot without a bar: a pass that built no graph"
DRAWN: dict[str, Strategy] = {
    "resample": strategies.resample,
    "reuse_z": strategies.reuse_z,
    "detach": strategies.detach,
    "retain_graph": strategies.retain_graph,
    "g_first": strategies.g_first,
    "g_first_resample": strategies.g_first_resample,
    "joint": strategies.joint,
    "one_stage": strategies.one_stage,
    "extragradient": strategies.extragradient,
}


class Pass:
    """One pass through a network: where in the trace it happened, and until where anything that it saved lived."""

    def __init__(self, kind: str, start: int) -> None:
        self.kind, self.start, self.end, self.saved = kind, start, start, 0


class _Saved:
    def __init__(self, gan: "WatchedGAN", tensor: Tensor) -> None:
        self.gan, self.tensor, self.owner = gan, tensor.detach(), gan.running  # attached, it would keep its own graph alive
        if self.owner:
            self.owner.saved += 1

    def __del__(self) -> None:
        if self.owner:
            self.owner.saved -= 1
            if self.owner.saved == 0:
                self.owner.end = len(self.gan.trace)


class WatchedGAN(GAN):
    """Writes down the trace of an iteration and the life of each pass."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.trace: list[str] = []
        self.passes: list[Pass] = []
        self.running: Pass | None = None

    def generate(self, z: Tensor) -> Tensor:
        return self._watch("G", super().generate, z)

    def score_real(self, x: Tensor) -> Tensor:
        return self._watch("r", super().score_real, x)

    def score_fake(self, fake: Tensor) -> Tensor:
        return self._watch("f", super().score_fake, fake)

    def update_d(self, d: Objective, *, retain_graph: bool = False) -> None:
        super().update_d(d, retain_graph=retain_graph)
        self.trace.append("D+")

    def update_g(self, g: Objective) -> None:
        super().update_g(g)
        self.trace.append("G+")

    def move(self, d_gradients: Any, g_gradients: Any) -> None:
        super().move(d_gradients, g_gradients)
        self.trace.append("DG+")

    def _watch(self, kind: str, verb: Any, batch: Tensor) -> Tensor:
        self.running = Pass(kind, len(self.trace))
        self.passes.append(self.running)
        self.trace.append(kind)
        result: Tensor = verb(batch)
        self.running = None
        return result


def watch(strategy: Strategy) -> tuple[list[str], list[Pass]]:
    """Run one iteration, with a loss that needs real scores in G's step, and return its trace and passes."""
    generator, discriminator = MLPGenerator(4, (2,), width=8), MLPDiscriminator((2,), width=8)
    optimizers = [torch.optim.SGD(network.parameters(), lr=1e-3) for network in (generator, discriminator)]
    gan = WatchedGAN(generator, discriminator, SoftmaxGAN(), *optimizers, Prior(4), batch_size=8)
    parameters = {p.data_ptr() for network in (generator, discriminator) for p in network.parameters()}

    def pack(tensor: Tensor) -> "Tensor | _Saved":
        return tensor if tensor.data_ptr() in parameters else _Saved(gan, tensor)

    def unpack(packed: "Tensor | _Saved") -> Tensor:
        return packed.tensor if isinstance(packed, _Saved) else packed

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        strategy(gan, itertools.repeat(torch.randn(8, 2)), d_steps=1, g_steps=1)
    return gan.trace, gan.passes


def draw(names: Sequence[str]) -> Figure:
    """Draw one panel per strategy."""
    columns = 3
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.2 * columns, 1.9 * rows + 0.9), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        trace, passes = watch(DRAWN[name])
        for line, one in enumerate(passes):
            axes.plot(one.start + 0.5, line, marker="o", markersize=5, color=COLORS[one.kind])
            if one.end > one.start:
                axes.barh(
                    line, one.end - one.start - 0.1, left=one.start + 0.5, height=0.55, color=COLORS[one.kind], alpha=0.75
                )
        axes.set_title(name, loc="left", fontsize=10, family="monospace")
        axes.set_xticks([i + 0.5 for i in range(len(trace))], trace, family="monospace", fontsize=9)
        axes.set(xlim=(0, len(trace) + 0.4), ylim=(len(passes) - 0.4, -0.6), yticks=[])
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    handles = [Patch(color=COLORS[kind], label=f"{kind}  {LABELS[kind]}") for kind in COLORS]
    figure.legend(handles=handles, title=STEPS, loc="outside lower center", ncols=3, frameon=False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figure into a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("outputs/graphs.png"))
    options = parser.parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    draw(list(DRAWN)).savefig(options.output, dpi=110)


if __name__ == "__main__":
    main()
