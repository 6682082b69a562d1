"""What to run, in which order, and how long it will take; and running it, in this process or in several."""

import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from datetime import date

from tqdm import tqdm

from benching import running
from benching.results import Arm, Line, Results
from benching.rules import BASE, RULES, Rule
from benching.running import Outcome, Part, Task
from benching.space import DIVISIONS, FURTHER, POINTS, point
from benching.workloads import WORKLOADS, Workload
from ganexp.cli.commands.pages.machine import machine
from ganexp.config.schema import ConfigError

TUNING_SEED = 1000
SEEDS = 20
WORKER = "benching.worker"


@dataclass(frozen=True)
class Wanted:
    """A run that is wanted: its line in the results, as far as known beforehand, and its task."""

    line: Line
    task: Task


@dataclass
class Plan:
    """Everything that is to be run.

    Args:
        workloads: On which workloads.
        rules: Which rules; `detach` comes first wherever it is among them.
        divisions: With which optimisers.
        points: How many points are tried.
        seeds: How many test runs there are.
        extended: Whether the points of the extension are tried as well.
        images: The budget of real samples instead of the workloads' own, for tests.
        further: Overrides after all others, for tests.
    """

    workloads: Sequence[Workload]
    rules: Sequence[Rule]
    divisions: Sequence[str] = tuple(DIVISIONS)
    points: int = POINTS
    seeds: int = SEEDS
    extended: bool = False
    images: int | None = None
    further: tuple[str, ...] = ()
    costs: dict[tuple[str, str, str], tuple[float, int]] = field(default_factory=dict)
    """Core-seconds of an iteration and real samples that it draws, by workload, division and rule, as far as tried."""

    def numbers(self, workload: Workload, division: str, results: Results) -> list[int]:
        """Return which points are tried: those of the extension too, if it is asked for or already counts in the block."""
        extension = range(POINTS, POINTS + FURTHER) if self.extended else []
        return sorted({*self.counted(workload, division, results), *extension})

    def counted(self, workload: Workload, division: str, results: Results) -> list[int]:
        """Return the points of which the best is run on the test split."""
        return [number for number in results.numbers(workload.key, division) if number < self.points or number >= POINTS]

    def refuse_other_ranges(self, results: Results) -> None:
        """Refuse to go on with a rule that was tuned in other ranges.

        Raises:
            ConfigError: A point in the results has settings other than it would have now.
        """
        for workload, division, rule in self._arms():
            arm = results.arms.get((workload.key, division, rule.name), Arm())
            for number, line in arm.tuning.items():
                if line.said != " ".join(point(number, DIVISIONS[division], rule.coefficients).settings):
                    raise ConfigError(
                        f"{rule.name} was tuned in {results.path} with {line.said}, and its ranges are others now: give it "
                        "another name, or name another file with --results."
                    )

    def wanted(self, results: Results) -> Iterator[Wanted]:
        """Yield, workload by workload, the missing runs that can be made now: the test runs of a rule only once it is tuned."""
        for workload in self.workloads:
            for division in self.divisions:
                misfits = results.misfits(workload.key)
                rules = [rule for rule in self.rules if (division, rule.name) not in misfits]
                for rule in sorted(rules, key=lambda rule: rule.name != BASE):
                    yield from self._tuning(workload, division, rule, results)
                for rule in sorted(rules, key=lambda rule: rule.name != BASE):
                    yield from self._test(workload, division, rule, results)

    def seconds(self, results: Results) -> float:
        """Return about how many core-seconds all missing runs take, and write down the rules that do not fit.

        A run is taken to last as long as earlier runs of the same rule in the block, or as a trial of some iterations promises.
        """
        total = 0.0
        for workload, division, rule in self._arms():
            try:
                each, iterations = self.cost(workload, division, rule)
            except ConfigError as error:
                if rule.name not in RULES:  # it may fit once it has been mended
                    raise ConfigError(f"{workload.name}: {error} Name the workloads that it fits with --workloads.") from error
                if (division, rule.name) not in results.misfits(workload.key):
                    line = Line("tuning", workload.key, division=division, rule=rule.name, state="misfit")
                    results.append(replace(line, said=" ".join(str(error).split())))
                continue
            arm = results.arms.get((workload.key, division, rule.name), Arm())
            known = [line.cpu_s for line in (*arm.tuning.values(), *arm.test) if line.state == "finished"]
            run_s = statistics.median(known) if known else each * iterations
            total += self._missing_of(workload, division, rule, results) * run_s
        return total

    def missing(self, results: Results) -> int:
        """Return how many runs are missing."""
        return sum(
            self._missing_of(workload, division, rule, results)
            for workload, division, rule in self._arms()
            if (division, rule.name) not in results.misfits(workload.key)
        )

    def _missing_of(self, workload: Workload, division: str, rule: Rule, results: Results) -> int:
        arm = results.arms.get((workload.key, division, rule.name), Arm())
        tuning = sum(number not in arm.tuning for number in self.numbers(workload, division, results))
        chosen = arm.chosen(self.counted(workload, division, results))
        lost = not tuning and chosen is None
        done = arm.seeds(chosen.point) if chosen else {}
        return tuning + (0 if lost else sum(seed not in done for seed in range(self.seeds)))

    def _arms(self) -> Iterator[tuple[Workload, str, Rule]]:
        """Yield each combination of workload, division and rule, which is tuned separately; `detach` comes first."""
        for workload, division in itertools.product(self.workloads, self.divisions):
            for rule in sorted(self.rules, key=lambda rule: rule.name != BASE):
                yield workload, division, rule

    def cost(self, workload: Workload, division: str, rule: Rule) -> tuple[float, int]:
        """Return the seconds of an iteration, and how many iterations exhaust the budget of images.

        Raises:
            ConfigError: The rule does not fit the workload.
        """
        key = (workload.name, division, rule.name)
        if key not in self.costs:
            first = point(0, DIVISIONS[division], rule.coefficients).settings
            self.costs[key] = running.trial(workload, self._overrides(division, rule), first, self.further)
        each, images = self.costs[key]
        return each, max(running.JUDGEMENTS, (self.images or workload.images) // images)

    def _overrides(self, division: str, rule: Rule) -> tuple[str, ...]:
        return (*DIVISIONS[division].overrides, *rule.overrides)

    def _task(self, workload: Workload, division: str, rule: Rule, settings: tuple[str, ...], seed: int, part: Part) -> Task:
        iterations = self.cost(workload, division, rule)[1]
        return Task(workload.name, self._overrides(division, rule), settings, seed, part, iterations, self.further)

    def _tuning(self, workload: Workload, division: str, rule: Rule, results: Results) -> Iterator[Wanted]:
        arm = results.arms.get((workload.key, division, rule.name))
        for number in self.numbers(workload, division, results):
            if arm is None or number not in arm.tuning:
                settings = point(number, DIVISIONS[division], rule.coefficients).settings
                line = Line("tuning", workload.key, division=division, rule=rule.name, point=number, seed=TUNING_SEED)
                task = self._task(workload, division, rule, settings, TUNING_SEED, "tuning")
                yield Wanted(replace(line, said=" ".join(settings)), task)

    def _test(self, workload: Workload, division: str, rule: Rule, results: Results) -> Iterator[Wanted]:
        arm = results.arms.get((workload.key, division, rule.name))
        chosen = arm.chosen(self.counted(workload, division, results)) if arm else None
        if arm is None or chosen is None:
            return
        there = arm.seeds(chosen.point)
        settings = point(chosen.point, DIVISIONS[division], rule.coefficients).settings
        for seed in range(self.seeds):
            if seed not in there:
                line = Line("test", workload.key, division=division, rule=rule.name, point=chosen.point, seed=seed)
                yield Wanted(line, self._task(workload, division, rule, settings, seed, "test"))


def run(plan: Plan, results: Results, jobs: int) -> None:
    """Make the missing runs, and write each down as it ends; a run that was stopped starts again from its beginning.

    Raises:
        ConfigError: Data cannot be obtained, or a rule of the results was tuned in other ranges.
    """
    plan.refuse_other_ranges(results)
    if next(plan.wanted(results), None) is None:
        return
    results.append(machine_line())
    bar = tqdm(desc="runs", unit="run", total=plan.missing(results), mininterval=0.5 if sys.stderr.isatty() else 60)
    running_now: dict[tuple[object, ...], Future[Outcome]] = {}
    lines: dict[tuple[object, ...], Line] = {}
    with _Pool(jobs) as pool:
        while True:
            for wanted in plan.wanted(results):
                if len(running_now) >= jobs:
                    break
                if wanted.line.identity not in running_now:
                    write_bound(WORKLOADS[wanted.task.workload], plan, results)
                    running_now[wanted.line.identity] = pool.submit(wanted.task)
                    lines[wanted.line.identity] = wanted.line
            if not running_now:
                break
            wait(running_now.values(), return_when=FIRST_COMPLETED)
            for identity in [one for one, future in running_now.items() if future.done()]:
                line = ended(lines.pop(identity), running_now.pop(identity).result())
                results.append(line)
                bar.set_postfix_str(f"{line.workload} {line.division} {line.rule} {line.part}", refresh=False)
                bar.update()
    bar.close()


def ended(line: Line, outcome: Outcome) -> Line:
    """Return the line of a run, completed with its outcome."""
    return replace(line, state=outcome.state, cpu_s=outcome.cpu_s, figures=tuple(outcome.figures))


def write_bound(workload: Workload, plan: Plan, results: Results) -> None:
    """Write down the figure from which a run on a workload has collapsed, and what judges, unless that is known.

    Raises:
        ConfigError: The classifier that judges here is not that of the results.
    """
    known, judge = results.bound(workload.key), running.judge_of(workload, plan.further)
    if known is None:
        results.append(Line("bound", workload.key, figures=(running.collapsed(workload, plan.further),), said=judge))
    elif known.said != judge:
        raise ConfigError(
            f"{workload.name}: {judge} judges here, and in {results.path} it is {known.said}: bring that classifier here, or "
            "name another file with --results, whose rules are all judged anew."
        )


def machine_line() -> Line:
    """Return the line that stands above all lines that this machine adds today."""
    return Line("machine", said=f"{date.today()}, {machine()}")


class _Pool:
    """`jobs` processes that each make one run after another; with a single job, this process makes each run as it is submitted.

    A process ends when its input does, so that none is left behind, whatever happens to this one.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._free: list[subprocess.Popen[str]] = []
        self._all: list[subprocess.Popen[str]] = []

    def __enter__(self) -> "_Pool":
        self._threads = ThreadPoolExecutor(self.jobs)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._all:
            process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()

    def submit(self, task: Task) -> Future[Outcome]:
        """Return the future outcome of a run."""
        if self.jobs == 1:
            done: Future[Outcome] = Future()
            done.set_result(running.run(task))
            return done
        return self._threads.submit(self._ask, task)

    def _ask(self, task: Task) -> Outcome:
        process = self._free.pop() if self._free else self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asdict(task)) + "\n")
        process.stdin.flush()
        answer: Mapping[str, object] = json.loads(process.stdout.readline() or '{"error": "it was killed"}')
        if "error" in answer:
            raise ConfigError(f"{task.workload}, {' '.join((*task.overrides, *task.settings))}: {answer['error']}")
        self._free.append(process)
        return Outcome(**answer)  # type: ignore[arg-type]

    def _start(self) -> subprocess.Popen[str]:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-P", "-m", WORKER]  # its own folder would hide the standard library's statistics
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self._all.append(process)
        return process


def workloads_of(machine_: str) -> list[Workload]:
    """Return the workloads for a machine: `cpu` or `gpu`."""
    return [workload for workload in WORKLOADS.values() if workload.machine == machine_]
