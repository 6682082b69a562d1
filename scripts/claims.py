"""Test twelve claims about update strategies on this machine, and give a verdict on each.

    python scripts/claims.py --quick                 # small networks, few seeds: within ten minutes on two CPU cores
    python scripts/claims.py                         # about an hour on two CPU cores; uses a GPU if there is one
    python scripts/claims.py --claims 6 12

Writes claims.html (one self-contained page), claims.md and its pictures below outputs/. Nothing is decided beforehand:
verdicts are computed from the measurements. MNIST is used from GANEXP_DATA, or downloaded there.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments import batch_size, cost, messages, order, report, softmaxgan, width_ratio
from experiments.finding import Finding
from ganexp.documents import refuse_unwritable

DCGAN_32 = ("dataset=fake",)
BEGAN_16 = (*batch_size.BEGAN, "dataset.image_size=16", "generator.width=16", "discriminator.width=16")
RACE: dict[str, Any] = {"overrides": DCGAN_32, "turns": 9, "iterations": 2}

EXPERIMENTS: dict[int, tuple[Callable[..., Finding], dict[str, Any]]] = {
    1: (messages.neither_detached_nor_retained, {}),
    2: (messages.scores_kept_over_a_step, {}),
    3: (messages.scores_of_a_detached_batch, {}),
    4: (messages.gradient_of_d_with_and_without_detach, {}),
    5: (cost.two_generator_passes, RACE),
    6: (cost.order_of_speed, RACE),
    7: (width_ratio.retain_for_a_heavy_discriminator, {"widths": (12, 32, 64, 96), "turns": 9, "iterations": 1}),
    8: (batch_size.began_eight_times_faster, {"overrides": BEGAN_16, "batches": (4, 16), "iterations": 2, "cold_starts": 2}),
    9: (batch_size.dcgan_ten_percent_faster, {"overrides": DCGAN_32, "batches": (8, 64), "iterations": 2}),
    10: (softmaxgan.black_at_one_to_one, {"image_size": 16, "width": 16, "iterations": 800, "seeds": (0, 1)}),
    11: (
        order.g_first_is_a_step_behind,
        {"ring": (4000, 4), "digits": (800, 4), "mnist": (800, 3), "width": 16, "times": 8},
    ),
    12: (cost.one_backward_pass, RACE),
}
"""By the claim's number: the experiment, whose defaults are the full form, and what the quick form makes smaller."""


def main(arguments: Sequence[str] | None = None) -> Path:
    """Run the experiments and return the folder of the pages."""
    options = _parser().parse_args(arguments)
    folder = options.output or Path("outputs") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}_claims"
    refuse_unwritable(folder / "claims.md")
    some = f" --claims {' '.join(map(str, sorted({*options.claims})))}" if {*options.claims} != {*EXPERIMENTS} else ""
    how = "python scripts/claims.py" + " --quick" * options.quick + some
    start = time.perf_counter()
    findings: dict[int, Finding] = {}
    for number in tqdm(_timed_first(options.claims), disable=None, unit="claim"):
        experiment, quick = EXPERIMENTS[number]
        findings[number] = experiment(**(quick if options.quick else {}))
        tqdm.write(f"{number:2d} {findings[number].verdict}: {findings[number].reason}")
        minutes = (time.perf_counter() - start) / 60
        done = {number: findings[number] for number in sorted(findings)}
        report.write(done, folder, how=how, minutes=minutes)
    print(f"Written to {folder / 'claims.html'} and {folder / 'claims.md'}")
    return folder


def _timed_first(numbers: Sequence[int]) -> list[int]:
    """Put the claims that train side by side on all cores after those that are timed."""
    return sorted(dict.fromkeys(numbers), key=lambda number: (number in (10, 11), number))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller networks, fewer seeds")
    parser.add_argument("--claims", nargs="+", type=int, choices=EXPERIMENTS, default=list(EXPERIMENTS), metavar="NUMBER")
    parser.add_argument("--output", type=Path, help="folder of the pages")
    return parser


if __name__ == "__main__":
    process.run(main)
