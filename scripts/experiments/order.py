"""Claim 11: is a G that learns from a D one step behind a worse G?"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import dirac, racing
from experiments.evaluators import FEATURES, distance_of, of_digits, of_mnist, of_ring
from experiments.finding import Finding, Verdict, at_least, together
from experiments.training import Course, Job, last_samples, rows_of, train_all, weights_after
from ganexp.compare.intervals import CONFIDENCE, Interval
from ganexp.evaluation import Evaluator
from measuring.intervals import of_mean, of_positive_mean
from measuring.markdown import table

CLASSES = {"g_first": "simultaneous", "detach": "alternating, same fakes", "resample": "alternating, new fakes"}
TIMED = (*CLASSES, "one_stage")
COLORS = dict(zip(TIMED, ("tab:orange", "tab:blue", "tab:green", "tab:red"), strict=True))
WIDTH = ("generator.width=128", "discriminator.width=128")
MLP = ("generator=mlp", "discriminator=mlp", "generator.depth=2", "discriminator.depth=2")
MOMENTUM = "optimizer.betas=[0.5,0.999]"
"""That of DCGAN."""
RING = ("dataset=ring", *MLP, *WIDTH, "batch_size=128", "latent_dim=2", "optimizer.lr=1e-3", MOMENTUM)


@dataclass
class Study:
    """One data set: how runs on it are trained and evaluated, for how many iterations, and with which seeds."""

    name: str
    overrides: tuple[str, ...]
    evaluator: Callable[[], Evaluator]
    """Raises an OSError where the data are not there."""
    iterations: int
    seeds: Sequence[int]


@dataclass
class Outcome:
    """The courses of a study by strategy and seed, its milliseconds per iteration, and the figure by which it is compared."""

    courses: dict[str, list[Course]]
    iteration_ms: dict[str, float]
    figure: str
    rows: list[dict[str, object]] = field(default_factory=list)


def g_first_is_a_step_behind(
    *,
    ring: tuple[int, int] = (12_000, 10),
    digits: tuple[int, int] = (2500, 10),
    mnist: tuple[int, int] = (3000, 5),
    width: int = 32,
    times: int = 12,
    turns: int = 15,
) -> Finding:
    """Train three classes of strategies on three data sets, each for (iterations, seeds), and follow them on a fourth."""
    small = (f"generator.width={width}", f"discriminator.width={width}", "dataset.image_size=16", MOMENTUM)
    studies = [
        Study("ring", RING, of_ring, ring[0], range(ring[1])),
        Study("digits", small, lambda: of_digits(16), digits[0], range(digits[1])),
        Study("MNIST", (*small, "dataset=mnist"), lambda: of_mnist(16), mnist[0], range(mnist[1])),
    ]
    spirals, pictures = dirac.spirals()
    tables, data, missing, figures = [], dirac.rows(), [], {"Dirac-GAN, plain gradient descent": pictures}
    verdicts = {("Dirac-GAN", loss): _on_dirac(by) for loss, by in spirals.items()}
    evaluators = {}
    for study in studies:
        try:
            evaluators[study.name] = study.evaluator()
        except OSError as error:
            missing.append(f"{study.name} was not run: {str(error).splitlines()[0]}.")
    studies = [study for study in studies if study.name in evaluators]
    for study in studies:  # all of these first, and undisturbed: training takes every core
        timed(study, turns)
    for study in studies:
        outcome = conducted(study, evaluators[study.name], times, turns)
        data += outcome.rows
        strict = behind(outcome, 1 - (1 - CONFIDENCE) / len(studies))
        verdicts |= {(study.name, how): at_least(0, difference) for how, difference in strict.items()}
        differences = [{"`g_first` minus `detach`": how, outcome.figure: gap} for how, gap in behind(outcome).items()]
        tables += [table(summary(study, outcome)), table(differences)]
        figures[f"{study.name}: means over {len(study.seeds)} seeds, with {CONFIDENCE:.0%} confidence bands"] = curves(outcome)
        first = {kind: outcome.courses[strategy][0] for strategy, kind in CLASSES.items()}
        figures[f"{study.name}: last samples, seed 0"] = last_samples(first)
    verdict, reason = together(verdicts)
    apart = float((weights_after(5, "g_first") - weights_after(5, "joint")).abs().max())
    evidence = (
        f"After five iterations of a small GAN in float64, G's weights under `g_first` and `joint` differ by {apart:.1g}. "
        "It is `one_stage` that makes the same updates in the least time.\n\n"
        "Each figure is the last one of a run; differences are `g_first` minus `detach`, seed by seed, so a positive one means "
        "that `g_first` is worse. For equal time, the runs are compared at the time when the fastest ends, with the "
        "milliseconds per iteration of a race of all four. Verdicts take wider intervals than the tables, by Bonferroni's "
        f"correction for {len(studies)} data sets. (Published for a plain GAN on this ring, with other networks: 6.3 "
        "modes, 98.2 % of high quality; Lin et al. 2018.)\n\n"
        f"{of_the_bench()}\n\n{FEATURES}\n\n"
    )
    return Finding(
        "G first means that G learns from a D that is a step behind, so it should be worse.",
        verdict,
        f"{reason}.",
        evidence + "\n".join([*tables, *missing]),
        figures,
        data=data,
    )


def of_the_bench() -> str:
    """Return what the bench says of the same updates, with rates that were tuned for each rule."""
    with (Path(__file__).parents[2] / "docs" / "study_verdicts.csv").open(newline="") as file:
        rows = [one for one in csv.DictReader(file) if (one["rule"], one["optimizer"]) == ("joint", "adam")]
    found = {one["workload"].partition("_")[0]: one for one in rows if "_nonsaturating." in one["workload"]}
    said = [f"{float(found[name]['ratio']):.2f} on {name} (p = {float(found[name]['p']):.1g})" for name in ("ring", "digits")]
    return (
        "All rules have the same rates here. With rates tuned for each rule, [the bench](study.md) finds for these updates, as "
        f"`joint` with Adam, this distance from the data over that of `detach`: {' and '.join(said)}."
    )


def conducted(study: Study, evaluator: Evaluator, times: int, turns: int) -> Outcome:
    """Time the strategies of a study side by side, then train them."""
    race = timed(study, turns)
    arms = {
        strategy: [
            Job((*study.overrides, f"strategy={strategy}", f"seed={seed}"), study.iterations, times, evaluator)
            for seed in study.seeds
        ]
        for strategy in CLASSES
    }
    courses = train_all(arms)
    rows = rows_of(arms, courses) + racing.rows_of(TIMED, study.overrides, turns, 10)
    return Outcome(courses, race, distance_of(evaluator), rows)


def timed(study: Study, turns: int) -> dict[str, float]:
    """Return milliseconds per iteration: the median of `detach`, times each strategy's ratio to it, taken turn by turn."""
    race = racing.raced(TIMED, study.overrides, turns, 10)
    unit = race["detach"].median_ms
    return {name: unit * entry.over(race["detach"]).middle for name, entry in race.items()}


def behind(outcome: Outcome, confidence: float = CONFIDENCE) -> dict[str, Interval]:
    """Return by how much `g_first` ends worse than `detach`, seed by seed: at equal updates, and at equal time."""
    mine, theirs = outcome.courses["g_first"], outcome.courses["detach"]
    last = [run.iterations[-1] for run in (mine[0], theirs[0])]
    differences = {"at equal updates": _difference(outcome, last[0], last[1], confidence)}
    for form in ("g_first", "one_stage"):
        mine_ms, theirs_ms = outcome.iteration_ms[form], outcome.iteration_ms["detach"]
        end_ms = min(mine_ms * last[0], theirs_ms * last[1])
        how = "at equal time" + (", run as `one_stage`" if form == "one_stage" else "")
        differences[how] = _difference(outcome, end_ms / mine_ms, end_ms / theirs_ms, confidence)
    return differences


def summary(study: Study, outcome: Outcome) -> list[dict[str, object]]:
    """Return the table's rows for one study."""
    rows: list[dict[str, object]] = []
    for strategy, kind in CLASSES.items():
        runs = outcome.courses[strategy]
        further = [key for key in runs[0].figures[-1] if key != outcome.figure]
        rows.append(
            {
                "data": study.name,
                "strategy": f"`{strategy}`: {kind}",
                "ms per iteration": outcome.iteration_ms[strategy],
                outcome.figure: of_positive_mean([run.curve(outcome.figure)[-1] for run in runs]),
                "also": ", ".join(f"{key} {np.mean([run.curve(key)[-1] for run in runs]):.3g}" for key in further),
            }
        )
    one_stage = {"strategy": "`one_stage`: the updates of `g_first`", "ms per iteration": outcome.iteration_ms["one_stage"]}
    return [*rows, dict.fromkeys(rows[0], "") | {"data": study.name} | one_stage]


def curves(outcome: Outcome) -> Figure:
    """Draw quality over updates and over time."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for strategy in TIMED:
        runs = outcome.courses["g_first" if strategy == "one_stage" else strategy]
        seconds = outcome.iteration_ms[strategy] / 1000
        if strategy != "one_stage":
            _band(left, runs, outcome, 1.0, strategy)
        _band(right, runs, outcome, seconds, strategy)
    left.set(xlabel="updates of each network", ylabel=outcome.figure, yscale="log")
    right.set(xlabel="seconds, by the milliseconds per iteration of the race")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=len(TIMED), frameon=False)
    return figure


def _difference(outcome: Outcome, mine: float, theirs: float, confidence: float) -> Interval:
    """Return the figure of `g_first` at one iteration less that of `detach` at another, paired by seed."""
    pairs = zip(outcome.courses["g_first"], outcome.courses["detach"], strict=True)
    return of_mean([_at(a, outcome.figure, mine) - _at(b, outcome.figure, theirs) for a, b in pairs], confidence)


def _at(course: Course, name: str, iteration: float) -> float:
    return float(np.interp(iteration, course.iterations, course.curve(name)))


def _band(axes: Axes, runs: Sequence[Course], outcome: Outcome, scale: float, strategy: str) -> None:
    intervals = [of_positive_mean(values) for values in zip(*(run.curve(outcome.figure) for run in runs), strict=True)]
    at = np.array(runs[0].iterations) * scale
    axes.plot(at, [interval.middle for interval in intervals], color=COLORS[strategy], label=strategy)
    low, high = ([getattr(interval, side) for interval in intervals] for side in ("low", "high"))
    axes.fill_between(at, low, high, color=COLORS[strategy], alpha=0.15, linewidth=0)


def _on_dirac(by_strategy: Mapping[str, Sequence[float]]) -> Verdict:
    """Compare the largest distances over the last tenth of the iterations: the runs have no noise."""
    last = {strategy: max(way[-len(way) // 10 :]) for strategy, way in by_strategy.items()}
    return Verdict.CONFIRMED if last["g_first"] > last["detach"] else Verdict.REFUTED
