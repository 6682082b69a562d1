"""Benchmarks on this machine: the overhead of the framework, each optimisation, and the steps of other projects.

    python scripts/benchmark.py --quick               # a few minutes on two CPU cores
    python scripts/benchmark.py --data-root data      # with MNIST in data/mnist and CIFAR-10 in data/cifar10-train.zip
    python scripts/benchmark.py --parts overhead startup

Contenders run in turn, many times over, so that drift hits all alike; a ratio is taken within each turn, and tables show
medians with 95 % confidence intervals. Leave the machine alone meanwhile. Writes benchmarks.md and its pictures below outputs/.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks import feeding, gpu, hours, jobs, overhead, peers, processes, reach, scaling, startup, switches
from benchmarks.section import Section
from ganexp.cli.commands.compare.cases import CASES
from ganexp.cli.pages.machine import measured
from ganexp.documents import refuse_unwritable

READING = (
    "Contenders ran in turn in one process; every ratio is the median of ratios within a turn, and brackets are its 95 % "
    "confidence interval, by order statistics. Below 1 the first named is faster."
)
QUICK_CASES = ("mlp", "dcgan 32")


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run the benchmarks and return the folder of their results."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.data_root and not any((options.data_root / name).exists() for name in feeding.SETS):
        parser.error(f"{options.data_root} has neither {' nor '.join(feeding.SETS)}: name another folder with --data-root")
    folder = options.output or Path("outputs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_benchmark"
    refuse_unwritable(folder / "benchmarks.md")
    start, sections = time.perf_counter(), []
    for part in tqdm(options.parts, disable=None, unit="part"):
        sections += [section for section in parts(options)[part]() if section]
        minutes = (time.perf_counter() - start) / 60
        path = write(sections, folder, how=_command(options), minutes=minutes)
    print(path.read_text(), f"\nWritten to {path}", sep="\n")
    return folder


def parts(options: argparse.Namespace) -> dict[str, Callable[[], list[Section | None]]]:
    """Return every part of the benchmark as a call."""
    short = options.quick or torch.cuda.is_available()  # a GPU's iterations take a hundredth of a CPU's
    turns, turn_s = 5 if options.quick else 15, 0.1 if short else 0.5
    cases = QUICK_CASES if options.quick else tuple(CASES)
    axes = scaling.Axes((4, 32), (8, 32), (16, 32)) if options.quick else scaling.Axes()
    return {
        "overhead": lambda: [overhead.overhead(cases, 4 * turns, turn_s / 5), overhead.against_the_textbook(turns, turn_s)],
        "switches": lambda: [switches.switches(cases[:3], turns, turn_s), switches.threads(cases, turns, turn_s)],
        "peers": lambda: [peers.peers("dcgan 32", turns, turn_s), peers.penalty_factors(turns, turn_s)],
        "scaling": lambda: [scaling.scaling(axes, turns, turn_s)],
        "feeding": lambda: [feeding.feeding(options.data_root, cases, turns, turn_s)],
        "startup": lambda: [startup.startup(turns), startup.answers(turns), jobs.jobs(turns)],
        "processes": lambda: [processes.processes(cases[:3], turns, turn_s)],
        "reach": lambda: [reach.reach(1e12 * options.tflops)],
        "hours": lambda: [hours.hours(1e12 * options.tflops)],
        "gpu": lambda: [gpu.limits()],
    }


def write(sections: Sequence[Section], folder: Path, *, how: str, minutes: float) -> Path:
    """Write `benchmarks.md` and `benchmarks/*.png` below a folder."""
    pictures = folder / "benchmarks"
    pictures.mkdir(parents=True, exist_ok=True)
    said = [f"# Benchmarks\n\n{measured(how, minutes)} {READING}\n"]
    for section in sections:
        said.append(f"## {section.title}\n\n{section.text}")
        for i, (caption, figure) in enumerate(section.figures.items(), 1):
            name = "_".join(section.title.lower().split()) + (f"_{i}" if len(section.figures) > 1 else "")
            figure.savefig(pictures / f"{name}.png", dpi=100)
            said.append(f"{caption}:\n\n![{caption}](benchmarks/{name}.png)\n")
    path = folder / "benchmarks.md"
    path.write_text("\n".join(said))
    return path


def _command(options: argparse.Namespace) -> str:
    given = {
        "--quick": options.quick,
        "--data-root data": options.data_root,
        f"--tflops {options.tflops:g}": options.tflops != reach.ASSUMED,
        f"--parts {' '.join(options.parts)}": options.parts != PARTS,
    }
    return " ".join(["python scripts/benchmark.py", *(words for words, there in given.items() if there)])


PARTS = ["overhead", "switches", "peers", "scaling", "feeding", "startup", "processes", "reach", "gpu"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer cases, shorter turns")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "hours"], default=PARTS)
    parser.add_argument(
        "--data-root", type=Path, help="a folder with mnist/ and cifar10-train.zip; without it data are not timed"
    )
    parser.add_argument(
        "--tflops",
        type=float,
        default=reach.ASSUMED,
        help="what a GPU sustains in a recipe's networks, for the parts reach and hours",
    )
    parser.add_argument("--output", type=Path, help="a folder other than outputs/<now>_benchmark")
    return parser


if __name__ == "__main__":
    process.run(main)
