"""What the framework costs over a plain loop of the same algorithm, and what its strategies save over the textbook's loop."""

from collections.abc import Sequence

import plain_loops
from benchmarks.section import CASES, QUIET, Section, bars, timed
from compare_strategies import compose
from experiments.finding import table

STRATEGIES = ("detach", "joint", "one_stage")


def overhead(cases: Sequence[str], repeats: int, turn_s: float) -> Section:
    """Race each case's default run against a loop that does the same updates.

    Both train the very same networks in turn: two copies differ by where their memory lies, and that by some percent.
    """
    rows, ratios = [], {}
    for case in cases:
        trainer = compose(*QUIET, *CASES[case], "cuda_graph=false")
        loop = plain_loops.began if case.startswith("began") else plain_loops.lean
        steps = {"ganexp": trainer.iterate, "plain": loop(trainer.gan, trainer.reals.reals)}
        times = timed(steps, repeats=repeats, turn_s=turn_s, device=trainer.device)
        ratios[case] = times["ganexp"].over(times["plain"])
        rows.append(
            {
                "case": case,
                "plain loop, ms": times["plain"].median_ms,
                "ganexp, ms": times["ganexp"].median_ms,
                "ratio": ratios[case],
            }
        )
    return Section(
        "What the framework costs",
        "`strategy=detach` against a plain PyTorch loop of the same algorithm, in turn on the very same networks, optimisers "
        "and feed: D's gradients switched off in G's step, nothing measured or logged. ganexp also sums losses and scores "
        "and times its phases.\n\n" + table(rows),
        {"Time per iteration over that of a plain loop of the same algorithm": bars(ratios, "time relative to the plain loop")},
    )


def against_the_textbook(repeats: int, turn_s: float) -> Section:
    """Race default runs of three strategies against the textbook's loop, for DCGAN 64×64."""
    overrides = CASES["dcgan 64"]
    textbook = compose(*QUIET, *overrides, "channels_last=false")
    trainers = {name: compose(*QUIET, *overrides, f"strategy={name}") for name in STRATEGIES}
    steps = {"textbook": plain_loops.textbook(textbook.gan, textbook.reals.reals)}
    steps |= {name: trainer.iterate for name, trainer in trainers.items()}
    times = timed(steps, repeats=repeats, turn_s=turn_s, device=textbook.device)
    ratios = {name: times[name].over(times["textbook"]) for name in STRATEGIES}
    rows = [{"strategy": name, "ms": times[name].median_ms, "over the textbook's loop": ratios[name]} for name in STRATEGIES]
    return Section(
        "What strategies save",
        "Default runs against the textbook's loop, which computes D's gradients in G's step and throws them away: DCGAN 64×64, "
        f"width 64, batch 32, no batch norm in D. The textbook's loop takes {times['textbook'].median_ms:.0f} ms.\n\n"
        + table(rows),
    )
