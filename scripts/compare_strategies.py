"""Compare update strategies on this machine: time, phases, operations and memory, side by side.

    python scripts/compare_strategies.py --strategies detach joint one_stage --losses nonsaturating hinge
    python scripts/compare_strategies.py --repeats 9 --overrides generator.width=64 batch_size=32 dataset.image_size=64

All rows run in turn, many times over, so that drift hits all alike. A ratio is taken within each turn, against `detach`
with redundant gradients, and the table shows its median and quartiles. Two rows are plain PyTorch loops of `detach`,
with and without redundant gradients: what the framework costs is the ratio to them. Writes table.md, table.csv and
plots below outputs/.
"""

import argparse
import csv
import platform
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import hydra
import torch
from matplotlib.figure import Figure
from tqdm import tqdm

import plain_loops
from ganexp import Trainer, build
from measuring import Contender, LiveActivations, operations, race, spread

CONF = Path(__file__).resolve().parent.parent / "conf"
BASELINE = "detach, redundant"
DEFAULT_STRATEGIES = [path.stem for path in sorted((CONF / "strategy").glob("*.yaml"))]
DEFAULT_OVERRIDES = ["dataset=fake", "dataset.image_size=64", "generator.width=64", "discriminator.width=64"]
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run the comparison and return the folder of its results."""
    options = _parser().parse_args(arguments)
    folder = options.output or Path("outputs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_compare_strategies"
    rows: list[Row] = []
    for loss in tqdm(options.losses, disable=None, unit="loss"):
        rows += compare(options.strategies, loss, options.overrides, options.repeats, options.iterations)
    folder.mkdir(parents=True, exist_ok=True)
    text = f"{conditions(options)}\n\n{markdown(rows)}"
    (folder / "table.md").write_text(text)
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    plot(rows).savefig(folder / "time.png", dpi=120)
    print(text, f"\nWritten to {folder}", sep="\n")
    return folder


def compare(strategies: Sequence[str], loss: str, overrides: Sequence[str], repeats: int, iterations: int) -> list[Row]:
    """Measure every strategy with one loss, lean and redundant, and the plain loops."""
    settings = [*overrides, f"loss={loss}", "wandb.mode=disabled", "ema=off", "iterations=1000000"]
    contenders = []
    for strategy in dict.fromkeys(["detach", *strategies]):
        for redundant in (True, False):
            if strategy == "one_stage" and redundant:
                continue  # it has nothing redundant to compute
            trainer = compose(*settings, f"strategy={strategy}", f"redundant_gradients={str(redundant).lower()}")
            contenders.append(_contender(f"{strategy}, redundant" if redundant else strategy, trainer))
    if loss == "nonsaturating":
        for name, loop in {"plain loop, redundant": plain_loops.textbook, "plain loop": plain_loops.lean}.items():
            trainer = compose(*settings)
            contenders.append(Contender(name, loop(trainer.gan, trainer.reals.reals), trainer.gan))
    device = trainer.device
    counted = {contender.name: count(contender, device) for contender in contenders}
    race(contenders, repeats=repeats, iterations=iterations, device=device)
    baseline = next(contender for contender in contenders if contender.name == BASELINE).times_ms
    return [row(contender, baseline, loss, trainer.gan.batch_size, *counted[contender.name]) for contender in contenders]


def compose(*overrides: str) -> Trainer:
    """Build a trainer as the command line would."""
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return build(hydra.compose("train", [*overrides]))


def count(contender: Contender, device: torch.device) -> tuple[float, float]:
    """Return one iteration's operations in Gflop, and its peak of activations (CPU) or allocated memory (GPU) in MiB."""
    contender.step()  # the first one may try what the others take for granted
    gflop = operations(contender.step) / 1e9
    assert contender.gan is not None
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        contender.step()
        return gflop, torch.cuda.max_memory_allocated(device) / 2**20
    with LiveActivations(contender.gan) as activations:
        contender.step()
    return gflop, activations.peak / 2**20


def row(contender: Contender, baseline: Sequence[float], loss: str, batch_size: int, gflop: float, peak_mib: float) -> Row:
    """Summarise what was measured of one contender."""
    low, ratio, high = spread([ms / base for ms, base in zip(contender.times_ms, baseline, strict=True)])
    _, milliseconds, _ = spread(contender.times_ms)
    phases = {
        f"{name}_ms": round(spread([phases.get(name, 0.0) for phases in contender.phases_ms])[1], 3)
        for name in ("data", "d", "g")
    }
    has_phases = any(contender.phases_ms)
    return {
        "loss": loss,
        "strategy": contender.name,
        "ratio": round(ratio, 4),
        "ratio_low": round(low, 4),
        "ratio_high": round(high, 4),
        "iteration_ms": round(milliseconds, 3),
        **(phases if has_phases else dict.fromkeys(phases, "")),
        "gflop": round(gflop, 3),
        "peak_mib": round(peak_mib, 2),
        "images_per_s": round(1000 * batch_size / milliseconds, 1),
    }


def conditions(options: argparse.Namespace) -> str:
    """Say what was measured on what, and when."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{platform.machine()} CPU"
    return (
        f"Measured on {date.today()} on {device}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()}: medians [quartiles] of {options.repeats} interleaved repeats of "
        f"{options.iterations} iterations; `{' '.join(options.overrides)}`. Ratios are times relative to `{BASELINE}`; "
        f"peak is {'memory allocated' if torch.cuda.is_available() else 'activations kept by autograd'}."
    )


def markdown(rows: Sequence[Row]) -> str:
    """Lay the rows out as a table."""
    lines = [
        "| loss | strategy | time | ms per iteration | D ms | G ms | Gflop | peak MiB | images/s |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        ratio = f"**{r['ratio']:.3f}** [{r['ratio_low']:.3f}, {r['ratio_high']:.3f}]"
        figures = [r["iteration_ms"], r["d_ms"], r["g_ms"], r["gflop"], r["peak_mib"], r["images_per_s"]]
        lines.append(f"| {r['loss']} | {r['strategy']} | {ratio} | {' | '.join(str(figure) for figure in figures)} |")
    return "\n".join(lines) + "\n"


def plot(rows: Sequence[Row]) -> Figure:
    """Draw the ratios with their quartiles, one panel per loss."""
    losses = list(dict.fromkeys(r["loss"] for r in rows))
    tallest = max(sum(r["loss"] == loss for r in rows) for loss in losses)
    figure = Figure(figsize=(5.5 * len(losses), 1.2 + 0.3 * tallest), layout="constrained")
    for axes, loss in zip(figure.subplots(1, len(losses), squeeze=False)[0], losses, strict=True):
        shown = sorted((r for r in rows if r["loss"] == loss), key=lambda r: r["ratio"], reverse=True)
        ratios = [r["ratio"] for r in shown]
        errors = [[r["ratio"] - r["ratio_low"] for r in shown], [r["ratio_high"] - r["ratio"] for r in shown]]
        colors = [
            "0.6" if "plain" in r["strategy"] else "tab:orange" if "redundant" in r["strategy"] else "tab:blue" for r in shown
        ]
        axes.barh([r["strategy"] for r in shown], ratios, xerr=errors, color=colors, ecolor="0.25", capsize=2)
        axes.axvline(1, color="0.25", linewidth=0.8, linestyle=":")
        axes.set(title=loss, xlabel=f"time per iteration, relative to {BASELINE}")
    return figure


def _contender(name: str, trainer: Trainer) -> Contender:
    return Contender(name, trainer.iterate, trainer.gan, trainer.timer.read_ms)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategies", nargs="+", default=DEFAULT_STRATEGIES, choices=DEFAULT_STRATEGIES)
    parser.add_argument("--losses", nargs="+", default=["nonsaturating"])
    parser.add_argument("--overrides", nargs="*", default=DEFAULT_OVERRIDES, help="configuration of every run, as for train.py")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=3, help="iterations per repeat")
    parser.add_argument("--output", type=Path, help="folder of the results")
    return parser


if __name__ == "__main__":
    main()
