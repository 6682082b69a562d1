"""The growth of the cost with the batch, the width and the size of images."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from benchmarks.section import Section
from ganexp.cli.commands.compare.cases import FAKE, trainer_of
from ganexp.compare import plain_loops
from ganexp.compare.plain_loops import images_of
from ganexp.compare.racing import Contender, Times, race_for
from measuring.markdown import table

NAMES = ("textbook", "detach", "joint", "one_stage")


@dataclass(frozen=True)
class Axes:
    """What is varied, one at a time."""

    batches: Sequence[int] = (4, 16, 64, 256)
    widths: Sequence[int] = (8, 16, 32, 64, 128)
    sizes: Sequence[int] = (16, 32, 64, 128)


def scaling(axes: Axes, turns: int, turn_s: float) -> Section:
    """Race three strategies and the textbook's loop along three axes, around dcgan 32 of width 32 at batch 32."""
    settings = {
        "batch": {n: (f"batch_size={n}", "dataset.image_size=32", *_width(32)) for n in axes.batches},
        "width": {n: ("batch_size=32", "dataset.image_size=32", *_width(n)) for n in axes.widths},
        "image size": {n: ("batch_size=32", f"dataset.image_size={n}", *_width(32)) for n in axes.sizes},
    }
    measured = {
        axis: {n: _race(overrides, turns, turn_s) for n, overrides in points.items()} for axis, points in settings.items()
    }
    rows = [
        {
            axis: n,
            "textbook's loop, ms": times["textbook"].median_ms,
            **{f"`{name}` over it": times[name].over(times["textbook"]) for name in NAMES[1:]},
        }
        for axis, points in measured.items()
        for n, times in points.items()
    ]
    tables = [table([row for row in rows if axis in row]) for axis in measured]
    return Section(
        "As things grow",
        "Around DCGAN 32×32, width 32, batch 32, one axis at a time; the textbook's loop computes D's gradients in G's step "
        "and throws them away.\n\n" + "\n".join(tables),
        {"Milliseconds per iteration, and what each strategy takes of the textbook's time": _plot(measured)},
    )


def _width(n: int) -> tuple[str, str]:
    return f"generator.width={n}", f"discriminator.width={n}"


def _race(overrides: Sequence[str], turns: int, turn_s: float) -> dict[str, Times]:
    trainer = trainer_of(*FAKE, *overrides, "channels_last=false")
    contenders = {"textbook": Contender(plain_loops.textbook(trainer.gan, images_of(trainer)))}
    contenders |= {name: Contender.of(trainer_of(*FAKE, *overrides, f"strategy={name}")) for name in NAMES[1:]}
    return race_for(contenders, turns=turns, turn_s=turn_s, device=trainer.gan.prior.device)


def _plot(measured: dict[str, dict[int, dict[str, Times]]]) -> Figure:
    figure = Figure(figsize=(11, 6), layout="constrained")
    grid = figure.subplots(2, len(measured), squeeze=False)
    for (axis, points), above, below in zip(measured.items(), *grid, strict=True):
        for name in NAMES:
            medians = [times[name].median_ms for times in points.values()]
            above.plot(list(points), medians, "o-", markersize=3, label=name, color="0.5" if name == "textbook" else None)
            if name != "textbook":
                ratios = [times[name].over(times["textbook"]) for times in points.values()]
                below.plot(list(points), [r.middle for r in ratios], "o-", markersize=3, label=name)
                below.fill_between(list(points), [r.low for r in ratios], [r.high for r in ratios], alpha=0.15)
        above.set(xscale="log", yscale="log", title=axis, ylabel="ms per iteration")
        below.set(xscale="log", xlabel=axis, ylabel="over the textbook's loop")
        below.axhline(1, color="0.25", linewidth=0.8, linestyle=":")
        for panel in (above, below):
            panel.set_xticks(list(points), [str(n) for n in points])
            panel.minorticks_off()
    grid[0][0].legend()
    return figure
