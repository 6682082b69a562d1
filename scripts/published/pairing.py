"""R3GAN's ablation on stacked MNIST: arms, settings, the file of their figures, and these beside the published ones.

Published (Huang et al. 2024, figure 2): modes among 1,000, and the KL divergence, of two losses with two penalties.

Settings of the authors' code (github.com/brownvc/R3GAN): both losses and penalties, with one γ; no normalisation in D; Adam
with a β₁ of 0, at a rate of 2e-4; 64 normal latents; fakes and real images of their own in G's step; averaged weights.
Their code has no preset for stacked MNIST, and the paper's settings for this figure could not be read here. Departures:

- DCGANs of width 32, with batch norm in G, and no residual networks, which take eight times as long on a CPU at this width;
- batches of 64 and not of 512, and 384,000 images in all, which fits into 8 core-hours;
- γ is 1, as in docs/evaluation.md, and was not tuned for these data;
- γ, the rates, β₂ (0.99, where the authors' presets end) and the average stay constant over the run.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from benching import rows
from experiments.finding import Verdict, at_least, together
from ganexp.cli.pages.machine import machine
from measuring.intervals import of_mean, of_positive_mean
from measuring.markdown import table

PUBLISHED = {
    ("rpgan", "r1r2"): (1000, 0.0781),
    ("nonsaturating", "r1r2"): (693, 0.9270),
    ("rpgan", "r1"): None,
    ("nonsaturating", "r1"): None,
}
"""Modes and KL divergence by loss and penalty; None where training failed."""
LOST = {("nonsaturating", "r1r2"): (1 - 0.693) / 2, ("rpgan", "r1"): 0.5, ("nonsaturating", "r1"): 0.5}
"""The share of the modes from which on an arm has lost what is published: half of what it loses there, and half of all where it
failed. The rule was written down when one trial of two arms had ended."""
COVERED = 0.99
"""The share from which on R3GAN's own arm covers the modes."""
SEEDS = 5
GAMMA = 1.0
SHARED = (
    "dataset=stacked_mnist",
    "generator=dcgan",
    "discriminator=dcgan",
    "generator.width=32",
    "discriminator.width=32",
    "discriminator.batch_norm=false",
    "strategy=resample",
    "strategy.new_reals=true",
    "optimizer=adam",
    "optimizer.lr=2e-4",
    "optimizer.betas=[0.0,0.99]",
    "average.decay=0.999",
    "latent_dim=64",
    "batch_size=64",
    "measure=[modes]",
    "evaluation.samples=26000",
    "logger=[]",
    "sample_every=0",
    "threads=1",
    "device=cpu",
)
COLUMNS = ("loss", "penalty", "seed", "iterations", "modes", "high_quality", "mode_kl", "machine")
Figures = tuple[float, ...]
"""Modes, the share of high quality, and the KL divergence."""


class Trial(NamedTuple):
    """One run: its loss, its penalty, and its seed."""

    loss: str
    penalty: str
    seed: int

    @property
    def overrides(self) -> tuple[str, ...]:
        """As for `train.py`."""
        own = (f"loss={self.loss}", f"penalty=[{self.penalty}]", f"penalty.{self.penalty}.weight={GAMMA}", f"seed={self.seed}")
        return (*SHARED, *own)


def wanted(seeds: int) -> list[Trial]:
    """Return all trials, those of a seed before those of the next."""
    return [Trial(*arm, seed) for seed in range(seeds) for arm in PUBLISHED]


def results(path: Path) -> dict[Trial, dict[int, Figures]]:
    """Return the figures of each trial by iterations; a trial that diverged has no modes.

    Raises:
        ValueError: The file has something else in it.
    """
    found: dict[Trial, dict[int, Figures]] = {}
    for loss, penalty, seed, iterations, *figures, _ in rows.read(path, COLUMNS):
        found.setdefault(Trial(loss, penalty, int(seed)), {})[int(iterations)] = tuple(map(float, figures))
    return found


def append(path: Path, trial: Trial, course: Mapping[int, Figures]) -> None:
    """Append the evaluations of a trial that are not in the file yet."""
    there = results(path).get(trial, {})
    made_on = f"{date.today()}, {machine()}"
    rows.append(path, COLUMNS, [[*trial, at, *figures, made_on] for at, figures in course.items() if at not in there])


def courses(found: Mapping[Trial, Mapping[int, Figures]]) -> dict[tuple[str, str], dict[int, list[Figures]]]:
    """Return, for each arm that has trials, the figures of its seeds by iterations, where all of them have some."""
    by_arm = {}
    for arm in PUBLISHED:
        of_seeds = [course for trial, course in found.items() if (trial.loss, trial.penalty) == arm]
        if common := set.intersection(*map(set, of_seeds)) if of_seeds else set():
            by_arm[arm] = {at: [course[at] for course in of_seeds] for at in sorted(common)}
    return by_arm


def judged(found: Mapping[Trial, Mapping[int, Figures]]) -> str:
    """Return the verdict on what is published and its reason, by `COVERED`, `LOST` and 95 % intervals of the mean shares."""
    verdicts = {}
    for (loss, penalty), course in courses(found).items():
        shares = [modes / 1000 for modes, *_ in course[max(course)]]
        if (loss, penalty) in LOST:
            what, verdict = "loses modes", at_least(LOST[loss, penalty], of_mean([1 - share for share in shares]))
        else:
            what, verdict = "covers all modes", at_least(COVERED, of_mean(shares))
        verdicts[f"`{loss}` with `{penalty}` {what}", ""] = verdict if len(shares) > 1 else Verdict.UNDECIDED
    verdict, reason = together(verdicts)
    return f"**{verdict}**: {reason}."


def means(found: Mapping[Trial, Mapping[int, Figures]]) -> list[dict[str, str]]:
    """Return a row for each arm: means with 95 % intervals over seeds, beside the published figures.

    An arm of which seeds are missing has the number of those that are there.
    """
    lines, by_arm = [], courses(found)
    evaluated = sorted({at for course in by_arm.values() for at in course})
    for (loss, penalty), course in by_arm.items():
        published, seeds = PUBLISHED[loss, penalty], len(course[max(course)])
        kl = of_positive_mean([end[2] for end in course[max(course)]])
        lines.append(
            {
                "loss, penalty": f"`{loss}`, `{penalty}`" + (f", {seeds} seeds" if seeds < SEEDS else ""),
                **{f"modes after {at:,}": _modes(course.get(at, [])) for at in evaluated},
                "published": "failed" if published is None else f"{published[0]:,}",
                "KL at the end": f"{kl.middle:.2f} [{kl.low:.2f}, {kl.high:.2f}]",
                "published KL": "failed" if published is None else f"{published[1]:.2f}",
            }
        )
    return lines


def _modes(figures: Sequence[Figures]) -> str:
    if not figures:
        return ""
    mean = of_mean([modes for modes, *_ in figures])
    return f"{mean.middle:.0f} [{max(mean.low, 0):.0f}, {min(mean.high, 1000):.0f}]"


def summary(found: Mapping[Trial, Mapping[int, Figures]]) -> str:
    """Return the verdict and the table of the arms."""
    return f"{judged(found)}\n\n{table(means(found))}" if found else "No trial has ended yet."
