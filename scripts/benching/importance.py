"""How much of the spread of the tuning runs each choice explains: functional ANOVA on a random forest.

Hutter et al. 2014, "An Efficient Approach for Assessing Hyperparameter Importance", with scikit-learn's forest. The marginals
are exact: the forest is evaluated on the whole product of the values that were tried, each weighted by how often it was tried.
The response is the rank of a run's plateau within its block, so that runs that diverged, which are all the last, have one too.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats
from sklearn.ensemble import RandomForestRegressor

from benching import rows
from benching.results import Results
from benching.rules import RULES
from benching.space import DIVISIONS
from benching.statistics import RESAMPLES
from benching.workloads import WORKLOADS, Workload
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import ALPHA

CHOICES = ("D's rate", "ratio of rates", "momentum", "rule")
SCOPES = {"all": 1.0, "best quarter": 0.25}
"""Which share of the runs, the best first, is looked at."""
TREES, LEAF = 32, 3
SAMPLES, SHUFFLES = 100, 40
"""How many bootstrap samples of the points give an interval, and how often a choice is shuffled to see what chance explains."""
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
    """Return all shares of the blocks in which every rule is tuned."""
    found = []
    for workload, division in itertools.product(WORKLOADS.values(), DIVISIONS):
        if not workload.rescue and not workload.of_order and len(_arms(results, workload, division)) > len(RULES) // 2:
            for scope in SCOPES:
                found += _of_tuning(results, workload, division, scope)
            found += of_test(results, workload, division)
    return found


def _arms(results: Results, workload: Workload, division: str) -> list[str]:
    """Return the rules whose tuning is complete."""
    numbers = results.numbers(workload.key, division)
    arms = {rule: results.arms[workload.key, division, rule] for rule in RULES}
    return [rule for rule, arm in arms.items() if all(number in arm.tuning for number in numbers)]


def _of_tuning(results: Results, workload: Workload, division: str, scope: str) -> list[Share]:
    """Return the shares in the tuning runs of a block, with intervals over bootstrap samples of the points.

    All rules were tried at the same points, so that the runs of a point are drawn together.
    """
    rules, numbers = _arms(results, workload, division), results.numbers(workload.key, division)
    table, plateaus = [], []
    for (code, rule), number in itertools.product(enumerate(rules), numbers):
        line = results.arms[workload.key, division, rule].tuning[number]
        d_rate, g_rate, momentum = (setting.partition("=")[2] for setting in line.said.split()[:3])
        first = momentum.strip("[]").partition(",")[0]
        table.append((np.log(float(d_rate)), round(np.log(float(g_rate) / float(d_rate)), 2), float(first), code, number))
        plateaus.append(line.plateau)
    every, figures = np.array(table), np.array(plateaus)
    kept = stats.rankdata(figures) <= SCOPES[scope] * len(figures)
    every, ranks = every[kept], stats.rankdata(figures[kept])
    shares, drawn = _explained_by_name(every, ranks, 0), np.random.default_rng(0)
    samples = [_explained_by_name(*_resampled(every, ranks, drawn), seed) for seed in range(SAMPLES)]
    by_chance = {
        name: float(
            np.quantile([_explained_by_name(_shuffled(every, at, drawn), ranks, n)[name] for n in range(SHUFFLES)], 0.95)
        )
        for at, name in enumerate(CHOICES)
    }
    return [
        Share(scope, workload.key, division, name, _interval(share, samples, name), by_chance.get(name, math.nan), len(ranks))
        for name, share in shares.items()
    ]


def _resampled(every: np.ndarray, ranks: np.ndarray, drawn: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw as many points as there are, with all runs of each."""
    points = np.unique(every[:, -1])
    at = np.concatenate([np.flatnonzero(every[:, -1] == point) for point in drawn.choice(points, len(points))])
    return every[at], ranks[at]


def _shuffled(every: np.ndarray, choice: int, drawn: np.random.Generator) -> np.ndarray:
    """Shuffle the values of a choice: those of a rate or momentum among the points, and the rules among the runs."""
    every = every.copy()
    if CHOICES[choice] == "rule":
        every[:, choice] = drawn.permutation(every[:, choice])
        return every
    _, first, place = np.unique(every[:, -1], return_index=True, return_inverse=True)
    every[:, choice] = drawn.permutation(every[first, choice])[place]
    return every


def _explained_by_name(every: np.ndarray, ranks: np.ndarray, seed: int) -> dict[str, float]:
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
