"""The results of all runs in one compact file: a line for each, appended as it comes, and never changed."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from benching import rows
from benching.rules import RULES
from benching.space import FURTHER, POINTS, VERSION, is_crossed

FINALISTS = 3
"""Among how many of a rule's best points the second version of the choice chooses."""
CHOICE_SEEDS = 4
"""By the mean over how many more seeds it chooses."""
PLATEAU = 3
"""A point is rated by the mean of this many judgements at the end of its run."""


@dataclass(frozen=True)
class Line:
    """A line of the file.

    Args:
        part: `tuning` or `test`, a run; `choice`, a run of one of a rule's best points with a further tuning seed;
            `runner-up`, a test run of a next-best point of `detach`; `plain`, the figures without averaged weights of the run
            that is otherwise the same, at its last judgements; `longer`, a run over twice the budget; `time`, how long the
            budget of images takes, relative to `detach`; `bound`, the figure from which a run has collapsed; `floor`, the
            figure of real data; `workload`, the digest of its definition; `machine`, what made the lines below.
        workload: Name and version.
        space: The version of the tuning space.
        division: The optimiser.
        rule: The name of the rule.
        point: The number of the point in the space.
        seed: The seed of the run.
        state: `finished` or `diverged`; `misfit` where the rule does not fit the workload, one line for all of its runs.
        cpu_s: Core-seconds of the training.
        figures: The figures of the run's judgements; for a time, the ratio; for a bound and a floor, the figure itself.
        said: For a tuning run, the settings as one types them; for a machine, what it is, with the versions and the date; for a
            misfit, why the rule does not fit; for a bound, the features that judge; for a workload, its digest.
    """

    part: str
    workload: str = ""
    space: int = VERSION
    division: str = ""
    rule: str = ""
    point: int = -1
    seed: int = -1
    state: str = ""
    cpu_s: float = 0.0
    figures: tuple[float, ...] = ()
    said: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """The values that identify a run."""
        return (self.part, self.workload, self.space, self.division, self.rule, self.point, self.seed)

    @property
    def end(self) -> float:
        """The last figure; infinite where the run has diverged."""
        return self.figures[-1] if self.state == "finished" and self.figures else math.inf

    @property
    def plateau(self) -> float:
        """The mean of the last figures; infinite where the run has diverged."""
        return statistics.fmean(self.figures[-PLATEAU:]) if self.state == "finished" and self.figures else math.inf


COLUMNS = [one.name for one in fields(Line)]


@dataclass
class Arm:
    """A rule in a division on a workload: its tuning, and the runs with the point that was chosen.

    Args:
        tuning: The tuning runs by point.
        test: The test runs of all points that were ever chosen, by point and seed.
        choice: The runs of its best points with further tuning seeds, by point and seed.
        plain: The figures of its runs without averaged weights, by point and seed.
    """

    tuning: dict[int, Line] = field(default_factory=dict)
    test: dict[tuple[int, int], Line] = field(default_factory=dict)
    choice: dict[tuple[int, int], Line] = field(default_factory=dict)
    plain: dict[tuple[int, int], Line] = field(default_factory=dict)

    def chosen(self, points: Iterable[int]) -> Line | None:
        """Return the tuning run with the best plateau of these points; None if one is missing, or all have diverged."""
        return next(iter(self.ranked(points)), None)

    def ranked(self, points: Iterable[int]) -> list[Line]:
        """Return the tuning runs of these points that have not diverged, the best plateau first; none if one is missing."""
        wanted = list(points)
        if any(number not in self.tuning for number in wanted):
            return []
        held = [line for line in (self.tuning[number] for number in wanted) if math.isfinite(line.plateau)]
        return sorted(held, key=lambda line: line.plateau)

    def finalists(self, points: Iterable[int]) -> list[Line]:
        """Return the tuning runs of the best of these points and of the crossed ones."""
        return self.ranked([*points, *filter(is_crossed, self.tuning)])[:FINALISTS]

    def chosen_again(self, points: Iterable[int]) -> Line | None:
        """Return the finalist with the best mean plateau over the further seeds; None if one of their runs is missing."""
        rated = []
        for finalist in self.finalists(points):
            runs = [line for (number, _), line in self.choice.items() if number == finalist.point]
            if len(runs) < CHOICE_SEEDS:
                return None
            rated.append((statistics.fmean(line.plateau for line in runs), finalist))
        return min(rated, key=lambda one: one[0])[1] if rated else None

    def seeds(self, point: int) -> dict[int, Line]:
        """Return the test runs of a point by seed."""
        return {seed: line for (number, seed), line in self.test.items() if number == point}


class Results:
    """The file, read once and appended to.

    Args:
        path: The file; if there is none, there are no results.

    Attributes:
        lines: All lines, as they stand.
        arms: What was run in this space, by workload, division and rule.

    Raises:
        ValueError: The file is not one of the bench's results, or has a line that is no result.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[Line] = []
        self.arms: defaultdict[tuple[str, str, str], Arm] = defaultdict(Arm)
        self._misfits: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
        self._there: set[tuple[object, ...]] = set()
        self._take([_parsed(row) for row in rows.read(path, COLUMNS)])

    def __contains__(self, run: Line) -> bool:
        """Return whether a run has been made."""
        return run.identity in self._there

    def append(self, *lines: Line) -> None:
        """Append lines to the file.

        In memory, lines are kept as the file has them, with rounded figures, so that whatever is chosen by them now is chosen
        later too.
        """
        written = [[_text(getattr(line, name)) for name in COLUMNS] for line in lines]
        rows.append(self.path, COLUMNS, written)
        self._take([_parsed(row) for row in written])

    def _take(self, lines: Sequence[Line]) -> None:
        self.lines += lines
        self._there |= {line.identity for line in lines}
        for line in lines:
            if line.space != VERSION:
                continue
            if line.state == "misfit":
                self._misfits[line.workload][line.division, line.rule] = line.said
            elif line.part == "tuning":
                self.arms[line.workload, line.division, line.rule].tuning.setdefault(line.point, line)
            elif line.part in ("test", "choice", "plain"):
                runs = getattr(self.arms[line.workload, line.division, line.rule], line.part)
                runs.setdefault((line.point, line.seed), line)

    def numbers(self, workload: str, division: str) -> range:
        """Return which points count in a block: those of the extension too once all of the bench's own rules have them."""
        misfits = self.misfits(workload)
        rules = [rule for rule in RULES if (division, rule) not in misfits]
        arms = [self.arms[workload, division, rule] for rule in rules]
        whole = range(POINTS + FURTHER)
        return whole if all(number in arm.tuning for arm in arms for number in whole[POINTS:]) else whole[:POINTS]

    def misfits(self, workload: str) -> Mapping[tuple[str, str], str]:
        """Return which rules do not fit a workload, by division and rule, and why."""
        return self._misfits.get(workload, {})

    def of_part(self, part: str) -> list[Line]:
        """Return the lines of a part that belong to this version of the space."""
        return [line for line in self.lines if line.part == part and line.space == VERSION]

    def digest(self, workload: str) -> str | None:
        """Return the digest of a workload's definition, of which all its lines are."""
        return next((line.said for line in self.of_part("workload") if line.workload == workload), None)

    def bound(self, workload: str) -> Line | None:
        """Return the line that has the figure from which a run counts as collapsed, and the features that judge."""
        return next((line for line in self.of_part("bound") if line.workload == workload), None)

    def floor(self, workload: str) -> Line | None:
        """Return the line that has the figure of real data."""
        return next((line for line in self.of_part("floor") if line.workload == workload), None)

    def runners_up(self, workload: str, division: str) -> dict[int, dict[int, Line]]:
        """Return the runs of `detach` at its next-best points, by point and seed."""
        found: defaultdict[int, dict[int, Line]] = defaultdict(dict)
        for line in self.of_part("runner-up"):
            if (line.workload, line.division) == (workload, division):
                found[line.point][line.seed] = line
        return found

    def times(self, workload: str) -> dict[str, float]:
        """Return how long each rule takes for the budget of images, relative to `detach`, as last measured."""
        return {line.rule: line.figures[0] for line in self.of_part("time") if line.workload == workload}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(f"{one:.4g}" for one in value)
    if isinstance(value, float):
        return f"{value:.2f}"
    return "" if value == -1 else str(value)


def _parsed(row: list[str]) -> Line:
    values: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
    for name in ("space", "point", "seed"):
        values[name] = int(values[name] or -1)
    figures = tuple(map(float, values["figures"].split()))
    return Line(**values | {"cpu_s": float(values["cpu_s"]), "figures": figures})
