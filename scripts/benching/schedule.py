"""The plan of runs: their order, their estimated time, and their execution in one or several processes."""

import itertools
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date

from tqdm import tqdm

from benching import running
from benching.results import Line, Results
from benching.rules import BASE, KNOWN, RULES, Rule
from benching.running import Outcome, Task
from benching.space import DIVISIONS, FURTHER, POINTS
from benching.workloads import Workload
from experiments.workers import workers
from ganexp.cli.pages.machine import machine
from ganexp.facts import UserError

SEEDS = 20
BUDGETS = 2
"""How many budgets a run has that shows whether one is enough, of the part `longer`."""


@dataclass
class Plan:
    """The runs of the bench.

    Args:
        results: What has been run, and where runs are written down.
        workloads: On which workloads.
        rules: Which rules; `detach` comes first wherever it is among them.
        divisions: With which optimisers.
        points: How many points are tried.
        seeds: How many test runs there are.
        extended: Whether the points of the extension are tried as well.
    """

    results: Results
    workloads: Sequence[Workload]
    rules: Sequence[Rule]
    divisions: Sequence[str] = tuple(DIVISIONS)
    points: int = POINTS
    seeds: int = SEEDS
    extended: bool = False
    costs: dict[tuple[str, str, str], tuple[float, int]] = field(default_factory=dict)
    """Core-seconds of an iteration and real samples that it draws, by workload, division and rule, as far as tried."""
    misfits: list[Line] = field(default_factory=list)
    """Rules that were found not to fit, as lines that the results do not have yet."""

    def __post_init__(self) -> None:
        self.rules = sorted(self.rules, key=lambda rule: rule.name != BASE)

    def numbers(self, workload: Workload, division: str) -> list[int]:
        """Return which points are tried: those of the extension too, if it is asked for or already counts in the block."""
        extension = range(POINTS, POINTS + FURTHER) if self.extended else []
        return sorted({*self.counted(workload, division), *extension})

    def counted(self, workload: Workload, division: str) -> list[int]:
        """Return the points of which the best is run on the test split."""
        return [number for number in self.results.numbers(workload.key, division) if number < self.points or number >= POINTS]

    def refuse_other_ranges(self) -> None:
        """Refuse a rule that was tuned in other ranges.

        Raises:
            UserError: A point in the results has settings other than it would have now.
        """
        for workload, division, rule in self.arms():
            for number, line in self.results.arms[workload.key, division, rule.name].tuning.items():
                if line.said != " ".join(rule.at(number, division).settings):
                    raise UserError(
                        f"{rule.name} was tuned in {self.results.path} with {line.said}, and its ranges are others now: give "
                        "it another name, or name another file with --results."
                    )

    def wanted(self) -> Iterator[Line]:
        """Yield, workload by workload, the missing runs that can be made now: the test runs of a rule only once it is tuned.

        With the extension, they wait until all rules are tuned, since only then do its points count in the choice.
        """
        for workload, division in itertools.product(self.workloads, self.divisions):
            misfits = self.results.misfits(workload.key)
            asked = [rule for of, by, rule in self.arms() if (of, by) == (workload, division)]
            rules = [rule for rule in asked if (division, rule.name) not in misfits]
            tuned = True
            for line in itertools.chain.from_iterable(self._tuning(workload, division, rule) for rule in rules):
                tuned = False
                yield line
            if self.extended and not tuned:  # the last tuning runs are being made
                continue
            for rule in rules:
                yield from self._test(workload, division, rule)

    def task(self, line: Line) -> Task:
        """Return the task of a run, given the known part of its line in the results."""
        workload = next(one for one in self.workloads if one.key == line.workload)
        rule = next(one for one in (*self.rules, RULES[BASE]) if one.name == line.rule)
        return Task(
            workload,
            self._overrides(line.division, rule),
            rule.at(line.point, line.division).settings,
            line.seed,
            "test" if line.part in ("test", "runner-up") else "tuning",
            self.cost(workload, line.division, rule)[1] * (BUDGETS if line.part == "longer" else 1),
        )

    def seconds(self) -> float:
        """Return about how many core-seconds all missing runs take, and find the rules that do not fit.

        A run is taken to last as long as earlier runs of the same rule in the block, or as a trial of some iterations promises.
        """
        total = 0.0
        for workload, division, rule in self.arms():
            try:
                each, iterations = self.cost(workload, division, rule)
            except UserError as error:
                if rule.name not in RULES:  # it may fit once it has been mended
                    tuned = any(one.key.lstrip("+") in str(error) for one in rule.coefficients)
                    remedy = "Choose another range with --tune" if tuned else "Name the workloads that it fits with --workloads"
                    raise UserError(f"{workload.name}: {str(error).rstrip('.')}. {remedy}.") from error
                if (division, rule.name) not in self.results.misfits(workload.key):
                    line = Line("tuning", workload.key, division=division, rule=rule.name, state="misfit")
                    self.misfits.append(replace(line, said=" ".join(str(error).split())))
                continue
            arm = self.results.arms[workload.key, division, rule.name]
            known = [line.cpu_s for line in (*arm.tuning.values(), *arm.test.values()) if line.state == "finished"]
            run_s = statistics.median(known) if known else each * iterations
            total += self._missing_of(workload, division, rule) * run_s
        return total

    def missing(self) -> int:
        """Return how many runs are missing."""
        unfit = {(line.workload, line.division, line.rule) for line in self.misfits}
        return sum(
            self._missing_of(workload, division, rule)
            for workload, division, rule in self.arms()
            if (division, rule.name) not in self.results.misfits(workload.key)
            and (workload.key, division, rule.name) not in unfit
        )

    def cost(self, workload: Workload, division: str, rule: Rule) -> tuple[float, int]:
        """Return the seconds of an iteration, and how many iterations exhaust the budget of images.

        Raises:
            UserError: The rule does not fit the workload.
        """
        key = (workload.name, division, rule.name)
        if key not in self.costs:
            first = rule.at(0, division).settings
            self.costs[key] = running.trial(workload, self._overrides(division, rule), first)
        each, images = self.costs[key]
        return each, max(running.JUDGEMENTS, workload.images // images)

    def arms(self) -> Iterator[tuple[Workload, str, Rule]]:
        """Yield each combination of workload, division and rule, which is tuned separately."""
        for workload, division, rule in itertools.product(self.workloads, self.divisions, self.rules):
            if rule.name not in KNOWN or workload.asks_for(division, rule.name):
                yield workload, division, rule

    def _missing_of(self, workload: Workload, division: str, rule: Rule) -> int:
        """Count the missing runs of an arm, whose test runs are missing as long as it is not tuned."""
        tuning = len([*self._tuning(workload, division, rule)])
        chosen = self.results.arms[workload.key, division, rule.name].chosen(self.counted(workload, division))
        if tuning and chosen is None:
            return tuning + self.seeds
        return tuning + len([*self._test(workload, division, rule)])

    def _overrides(self, division: str, rule: Rule) -> tuple[str, ...]:
        return (*DIVISIONS[division].overrides, *rule.overrides)

    def _tuning(self, workload: Workload, division: str, rule: Rule) -> Iterator[Line]:
        for number in self.numbers(workload, division):
            yield from self.tuning_run(workload, division, rule, number)

    def tuning_run(self, workload: Workload, division: str, rule: Rule, number: int) -> Iterator[Line]:
        """Yield the tuning run of a point, if it is missing."""
        line = Line("tuning", workload.key, division=division, rule=rule.name, point=number, seed=rule.tuning_seed)
        if line not in self.results:
            yield replace(line, said=" ".join(rule.at(number, division).settings))

    def runs(
        self, part: str, workload: Workload, division: str, rule: Rule, number: int, seeds: Iterable[int]
    ) -> Iterator[Line]:
        """Yield the runs of a point with these seeds that are missing."""
        for seed in seeds:
            line = Line(part, workload.key, division=division, rule=rule.name, point=number, seed=seed)
            if line not in self.results:
                yield line

    def _test(self, workload: Workload, division: str, rule: Rule) -> Iterator[Line]:
        chosen = self.results.arms[workload.key, division, rule.name].chosen(self.counted(workload, division))
        if chosen is not None:
            yield from self.runs("test", workload, division, rule, chosen.point, range(self.seeds))


def run(plan: Plan, jobs: int, wanted: Callable[[Plan], Iterable[Line]] = Plan.wanted) -> None:
    """Make the missing runs, and record each as it ends; an interrupted run starts again from its beginning.

    Args:
        plan: How runs are made.
        jobs: How many are made at a time, in processes of their own; a single one is made in this process.
        wanted: Returns the missing runs that can be made now, given the plan.

    Raises:
        UserError: Data cannot be obtained, or the results have a rule that was tuned in other ranges, or another classifier.
    """
    results = plan.results
    plan.refuse_other_ranges()
    now = [*wanted(plan)]
    if not now:
        return
    results.append(machine_line())
    total = plan.missing() if wanted is Plan.wanted else len(now)
    bar = tqdm(desc="runs", unit="run", total=total, mininterval=0.5 if sys.stderr.isatty() else 60)
    running_now: dict[Future[Outcome], Line] = {}
    processes: AbstractContextManager[ProcessPoolExecutor | None] = nullcontext() if jobs == 1 else workers(jobs)
    with bar, processes as pool:
        while True:
            for line in wanted(plan):
                if len(running_now) >= jobs:
                    break
                if line not in running_now.values():
                    task = plan.task(line)
                    write_bounds(task.workload, results)
                    running_now[pool.submit(_made_quietly, task) if pool else _made_here(task)] = line
            if not running_now:
                break
            for future in wait(running_now, return_when=FIRST_COMPLETED).done:
                line = running_now.pop(future)
                try:
                    outcome = future.result()
                except Exception as error:
                    task = plan.task(line)
                    words = " ".join((*task.overrides, *task.settings))
                    raise UserError(f"{task.workload.name}, {words}: {type(error).__name__}: {error}") from error
                made = replace(line, state=outcome.state, cpu_s=outcome.cpu_s, figures=tuple(outcome.figures))
                plain = replace(line, part="plain", state=outcome.state, figures=tuple(outcome.plain), said="")
                results.append(*([] if line.part == "longer" else [plain]), made)  # a run is there once its line is
                bar.set_postfix_str(f"{line.workload} {line.division} {line.rule} {line.part}", refresh=False)
                bar.update()


def write_bounds(workload: Workload, results: Results) -> None:
    """Record the figure above which a run on a workload counts as collapsed, with its judge, and the figure of real data."""
    if results.digest(workload.key) is None:
        results.append(Line("workload", workload.key, said=workload.digest))
    elif results.digest(workload.key) != workload.digest:
        raise UserError(
            f"{workload.name} is defined otherwise here than in {results.path}: raise its version, or name another file with "
            "--results."
        )
    known, judge = results.bound(workload.key), running.judge_of(workload)
    if known is None:
        results.append(Line("bound", workload.key, figures=(running.collapsed(workload),), said=judge))
    elif known.said != judge:
        raise UserError(
            f"{workload.name}: {judge} judges here, and in {results.path} it is {known.said}: bring that classifier here, or "
            "name another file with --results, whose rules are all judged anew."
        )
    if results.floor(workload.key) is None:
        results.append(Line("floor", workload.key, figures=(running.floor(workload),)))


def machine_line() -> Line:
    """Return the line that stands above all lines that this machine adds today."""
    return Line("machine", said=f"{date.today()}, {machine()}")


def _made_here(task: Task) -> Future[Outcome]:
    done: Future[Outcome] = Future()
    done.set_result(running.run(task))
    return done


def _made_quietly(task: Task) -> Outcome:
    running.say_little()
    return running.run(task)
