"""How much of the spread of the tuning runs each choice explains: functional ANOVA on a random forest.

Hutter et al. 2014, "An Efficient Approach for Assessing Hyperparameter Importance", with scikit-learn's forest. The marginals
are exact: the forest is evaluated on the whole product of the values that were tried, each weighted by how often it was tried.
The response is the rank of a run's plateau within its block, so that runs that diverged, which are all the last, have one too.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.ensemble import RandomForestRegressor

from benching import rows
from benching.results import Line, Results
from benching.rules import RULES
from benching.space import DIVISIONS
from benching.statistics import RESAMPLES
from benching.workloads import WORKLOADS, Workload
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import ALPHA

CHOICES = ("D's rate", "ratio of rates", "momentum", "rule")
SCOPES = {"all": 1.0, "best quarter": 0.25}
"""Which share of the runs, the best first, is looked at."""
TREES, LEAF = 16, 3
SAMPLES, SHUFFLES = 60, 20
"""How many samples of the points give an interval, and how often a choice is shuffled to see what chance explains."""
LEFT_OUT = 5
"""Each of these samples is without a random fifth of the points."""
COLUMNS = ("scope", "workload", "optimizer", "choice", "share", "low", "high", "by_chance", "runs")


@dataclass(frozen=True)
class Share:
    """The share of a spread that a choice explains, or a pair of choices beyond what each explains alone.

    Args:
        scope: `all` or `best quarter` of the tuning runs, or `test`, the runs of the chosen points on the test seeds.
        workload, division: The block.
        choice: The choice, or two joined by ` × `.
        share: The share of the variance of ranks, with its 95 % interval.
        by_chance: The share that it stays below in 95 % of cases if its values are shuffled; NaN for pairs.
        runs: How many runs it rests on.
    """

    scope: str
    workload: str
    division: str
    choice: str
    share: Interval
    by_chance: float
    runs: int

    @property
    def block(self) -> tuple[str, str]:
        """The name of the workload, without its version, and the optimiser."""
        return self.workload.partition(".")[0], self.division


def explained(values: Sequence[np.ndarray], response: np.ndarray, *, seed: int = 0) -> dict[tuple[int, ...], float]:
    """Return the share of the response's variance that each choice and each pair of choices explains.

    Args:
        values: The values of each choice, run by run, as numbers: `(runs,)` each.
        response: `(runs,)`.
        seed: Of the forest.

    Returns:
        Shares of the variance of `response` over the runs, by the places of the choices; the rest is in higher
        interactions, or explained by no choice.
    """
    levels = [np.unique(one, return_counts=True) for one in values]
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAF, random_state=seed)
    forest.fit(np.stack(values, axis=1), response)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*(level for level, _ in levels), indexing="ij")], axis=1)
    surface = forest.predict(grid).reshape([len(level) for level, _ in levels])
    parts = decomposed(surface, [counts / counts.sum() for _, counts in levels])
    return {places: part / response.var() for places, part in parts.items()}


def decomposed(surface: np.ndarray, weights: Sequence[np.ndarray]) -> dict[tuple[int, ...], float]:
    """Return the variance of the main effect of each axis, and of the interaction of each pair of axes.

    Args:
        surface: The function on the product of its arguments' values.
        weights: The weights of the values of each argument, which sum to 1.
    """
    axes = range(surface.ndim)
    centred = surface - _mean(surface, weights, axes)
    marginals: dict[tuple[int, ...], np.ndarray] = {}
    for places in [*((axis,) for axis in axes), *itertools.combinations(axes, 2)]:
        marginals[places] = _mean(centred, weights, [axis for axis in axes if axis not in places])
    for one, other in itertools.combinations(axes, 2):
        marginals[one, other] = marginals[one, other] - marginals[one,] - marginals[other,]
    return {places: float(_mean(effect**2, weights, axes).squeeze()) for places, effect in marginals.items()}


def _mean(surface: np.ndarray, weights: Sequence[np.ndarray], over: Sequence[int]) -> np.ndarray:
    for axis in over:
        if surface.shape[axis] > 1:
            surface = np.average(surface, axis=axis, weights=weights[axis], keepdims=True)
    return surface


def measured(results: Results) -> list[Share]:
    """Return all shares of the blocks in which most rules are tuned."""
    found = []
    for workload, division in _blocks(results):
        for scope in SCOPES:
            found += _of_tuning(results, workload, division, scope)
        found += of_test(results, workload, division)
    return found


def _blocks(results: Results) -> list[tuple[Workload, str]]:
    """Return the workloads and optimisers for which most rules are tuned, without those for other questions."""
    asked = [one for one in WORKLOADS.values() if not one.rescue and not one.of_order]
    return [(one, by) for by in DIVISIONS for one in asked if 2 * len(_arms(results, one, by)) > len(RULES)]


def _arms(results: Results, workload: Workload, division: str) -> list[str]:
    """Return the rules whose tuning is complete."""
    numbers = results.numbers(workload.key, division)
    arms = {rule: results.arms[workload.key, division, rule] for rule in RULES}
    return [rule for rule, arm in arms.items() if all(number in arm.tuning for number in numbers)]


def settings(line: Line) -> tuple[float, float, float]:
    """Return D's rate, G's rate and the momentum of a tuning run; with Adam, the momentum is β₁."""
    d_rate, g_rate, momentum = (setting.partition("=")[2] for setting in line.said.split()[:3])
    return float(d_rate), float(g_rate), float(momentum.strip("[]").partition(",")[0])


def best_tenths(results: Results) -> dict[tuple[str, str], dict[float, float]]:
    """Return the plateau that the best tenth of the tuning runs with each momentum reaches, by workload and optimiser."""
    found: dict[tuple[str, str], dict[float, float]] = {}
    for workload, division in _blocks(results):
        plateaus: defaultdict[float, list[float]] = defaultdict(list)
        for rule in _arms(results, workload, division):
            for number in results.numbers(workload.key, division):
                line = results.arms[workload.key, division, rule].tuning[number]
                plateaus[settings(line)[2]].append(line.plateau)
        found[workload.name, division] = {
            momentum: float(np.quantile(those, 0.1, method="inverted_cdf")) for momentum, those in sorted(plateaus.items())
        }
    return found


def tried(results: Results, workload: Workload, division: str, scope: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the tuning runs of a block: their choices as numbers, with the point, `(runs, 5)`, and their ranks, `(runs,)`."""
    rules, numbers = _arms(results, workload, division), results.numbers(workload.key, division)
    table, plateaus = [], []
    for (code, rule), number in itertools.product(enumerate(rules), numbers):
        line = results.arms[workload.key, division, rule].tuning[number]
        d_rate, g_rate, momentum = settings(line)
        table.append((np.log(d_rate), round(np.log(g_rate / d_rate), 2), momentum, code, number))
        plateaus.append(line.plateau)
    every, figures = np.array(table), np.array(plateaus)
    kept = stats.rankdata(figures) <= SCOPES[scope] * len(figures)
    return every[kept], stats.rankdata(figures[kept])


def _of_tuning(results: Results, workload: Workload, division: str, scope: str) -> list[Share]:
    """Return the shares in the tuning runs of a block, with intervals over the points.

    All rules were tried at the same points, so that the runs of a point are left out together: a jackknife without a fifth of
    the points (Shao and Wu 1989). A bootstrap of runs would take those of a point for independent. A bootstrap of points leaves
    out a third of the few that there are, and so the shares of its samples lie beside those of all points.
    """
    every, ranks = tried(results, workload, division, scope)
    if len(np.unique(every[:, -1])) < LEFT_OUT or not ranks.var():
        return []
    shares, drawn = explained_by_name(every, ranks, 0), np.random.default_rng(0)
    samples = [explained_by_name(*_without_some(every, ranks, drawn), seed) for seed in range(SAMPLES)]
    by_chance = {
        name: float(
            np.quantile([explained_by_name(_shuffled(every, at, drawn), ranks, n)[name] for n in range(SHUFFLES)], 0.95)
        )
        for at, name in enumerate(CHOICES)
    }
    return [
        Share(
            scope,
            workload.key,
            division,
            name,
            _around(share, [one[name] for one in samples], len(np.unique(every[:, -1]))),
            by_chance.get(name, math.nan),
            len(ranks),
        )
        for name, share in shares.items()
    ]


def _without_some(every: np.ndarray, ranks: np.ndarray, drawn: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Leave out a fifth of the points, with all runs of each."""
    points = np.unique(every[:, -1])
    kept = ~np.isin(every[:, -1], drawn.choice(points, len(points) // LEFT_OUT, replace=False))
    return every[kept], ranks[kept]


def _around(share: float, samples: Sequence[float], points: int) -> Interval:
    """Return a share with its normal 95 % interval, cut at 0, from its samples without a fifth of so many points."""
    out = points // LEFT_OUT
    half = stats.norm.isf(ALPHA / 2) * np.std(samples) * math.sqrt((points - out) / out)
    return Interval(max(0.0, float(share - half)), share, float(share + half))


def _shuffled(every: np.ndarray, choice: int, drawn: np.random.Generator) -> np.ndarray:
    """Shuffle the values of a choice: those of a rate or momentum among the points, and the rules among the runs."""
    every = every.copy()
    if CHOICES[choice] == "rule":
        every[:, choice] = drawn.permutation(every[:, choice])
        return every
    _, first, place = np.unique(every[:, -1], return_index=True, return_inverse=True)
    every[:, choice] = drawn.permutation(every[first, choice])[place]
    return every


def explained_by_name(every: np.ndarray, ranks: np.ndarray, seed: int) -> dict[str, float]:
    """Return the shares by the names of the choices; rules are numbered by their mean rank, so that trees can split them."""
    means = {rule: ranks[every[:, 3] == rule].mean() for rule in np.unique(every[:, 3])}
    ordered = {rule: place for place, rule in enumerate(sorted(means, key=means.__getitem__))}
    values = [*every[:, :3].T, np.array([ordered[rule] for rule in every[:, 3]])]
    shares = explained(values, ranks, seed=seed)
    return {" × ".join(CHOICES[place] for place in places): share for places, share in shares.items()}


def of_test(results: Results, workload: Workload, division: str) -> list[Share]:
    """Return how much of the spread of the test runs at the chosen points rules explain, and how much seeds do.

    The intervals are over bootstrap samples of the seeds.
    """
    numbers, table = results.numbers(workload.key, division), []
    for rule in _arms(results, workload, division):
        arm = results.arms[workload.key, division, rule]
        chosen = arm.chosen(numbers)
        runs = arm.seeds(chosen.point) if chosen else {}
        if runs:
            table.append([runs[seed].end for seed in sorted(runs)])
    if len(table) < 2 or len({len(row) for row in table}) > 1:
        return []
    ends = np.array(table)
    shares, drawn = _between(ends), np.random.default_rng(0)
    samples = [_between(ends[:, drawn.integers(ends.shape[1], size=ends.shape[1])]) for _ in range(RESAMPLES)]
    chance = [_between(drawn.permutation(ends.ravel()).reshape(ends.shape)) for _ in range(RESAMPLES)]
    return [
        Share(
            "test",
            workload.key,
            division,
            name,
            _interval(share, samples, name),
            float(np.quantile([one[name] for one in chance], 0.95)),
            ends.size,
        )
        for name, share in shares.items()
    ]


def _between(ends: np.ndarray) -> dict[str, float]:
    """Return the shares of the variance of ranks between rows, which are rules, and between columns, which are seeds."""
    ranks = stats.rankdata(ends).reshape(ends.shape)
    return {"rule": float(ranks.mean(1).var() / ranks.var()), "seed": float(ranks.mean(0).var() / ranks.var())}


def _interval(share: float, samples: Sequence[Mapping[str, float]], name: str) -> Interval:
    """Return a share with its percentile interval over samples."""
    low, high = np.quantile([one[name] for one in samples if name in one], [ALPHA / 2, 1 - ALPHA / 2])
    return Interval(float(low), share, float(high))


def beside(page: Path) -> Path:
    """Return the file of the shares that belongs to a page."""
    return page.with_name(f"{page.stem}_choices.csv")


def write(path: Path, shares: Sequence[Share]) -> None:
    """Write the shares as a CSV file."""
    path.unlink(missing_ok=True)
    table = [(one.scope, one.workload, one.division, one.choice, *_texts(one), one.runs) for one in shares]
    rows.append(path, COLUMNS, table)


def _texts(one: Share) -> list[str]:
    numbers = (one.share.middle, one.share.low, one.share.high, one.by_chance)
    return ["" if math.isnan(number) else f"{number:.4f}" for number in numbers]


def read(path: Path) -> list[Share]:
    """Return the shares of a file; none if there is no file.

    Raises:
        ValueError: The file has something else in it.
    """
    found = []
    for scope, workload, division, choice, share, low, high, by_chance, runs in rows.read(path, COLUMNS):
        interval = Interval(float(low), float(share), float(high))
        found.append(Share(scope, workload, division, choice, interval, float(by_chance or "nan"), int(runs)))
    return found


def told(results: Results, shares: Sequence[Share]) -> dict[str, Any] | None:
    """Return what the page says of the shares; None if there are none."""
    if not any(one.scope == "all" for one in shares):
        return None
    by: defaultdict[tuple[str, str], dict[str, Share]] = defaultdict(dict)
    for one in shares:
        by[one.scope, ", ".join(one.block)][one.choice] = one
    tenths = best_tenths(results)
    blocks = list(dict.fromkeys(", ".join(one.block) for one in shares))
    with_adam = [of for (_, division), of in tenths.items() if division == "adam"]
    at_0 = sum(min(of, key=of.__getitem__) == 0 for of in with_adam)
    return {
        "names": CHOICES,
        "all": {block: {name: _cell(one) for name, one in by["all", block].items()} for block in blocks},
        "late": {block: _late(*(by[scope, block] for scope in ("best quarter", "test"))) for block in blocks},
        "span": lambda scope, name: _span([one.share.middle for one in shares if (one.scope, one.choice) == (scope, name)]),
        "chance": lambda scope, name: _percent(
            max(one.by_chance for one in shares if (one.scope, one.choice) == (scope, name))
        ),
        "beyond_chance": lambda scope, name: _count(
            [one.share.middle > one.by_chance for one in shares if (one.scope, one.choice) == (scope, name)]
        ),
        "above_0": lambda name: _count([one.share.low > 0 for one in shares if (one.scope, one.choice) == ("all", name)]),
        "runs": _from_to([one.runs for one in shares if one.scope == "all"]),
        "points": max(len(results.numbers(one.workload, one.division)) for one in shares),
        "trees": TREES,
        "samples": SAMPLES,
        "best_momentum": f"with Adam, the best runs have a β₁ of 0 on {at_0} of {len(with_adam)} workloads",
        "momentums": {
            division: (
                sorted({momentum for (_, by), of in tenths.items() if by == division for momentum in of}),
                {name: list(of.values()) for (name, by), of in tenths.items() if by == division},
            )
            for division in dict.fromkeys(division for _, division in tenths)
        },
    }


def _late(quarter: Mapping[str, Share], test: Mapping[str, Share]) -> list[str]:
    """Return the cells of the best quarter and of the test runs."""
    chance = _percent(quarter["rule"].by_chance) if quarter else ""
    cells = [_cell(quarter.get("D's rate")), _cell(quarter.get("rule")), chance]
    return cells + [_cell(test.get(name)) for name in ("rule", "seed")]


def _cell(one: Share | None) -> str:
    if one is None:
        return ""
    return f"{100 * one.share.middle:.0f} % [{100 * one.share.low:.0f}, {100 * one.share.high:.0f}]"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _span(values: Sequence[float]) -> str:
    return f"{_from_to([round(100 * value) for value in values])} %" if values else "–"


def _count(those: Sequence[bool]) -> str:
    return f"{sum(those)} of {len(those)}"


def _from_to(values: Sequence[int]) -> str:
    return str(min(values)) if min(values) == max(values) else f"{min(values)} to {max(values)}"
