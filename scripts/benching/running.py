"""One run of the bench: a rule with its settings on a workload, evaluated at intervals."""

import contextlib
import logging
import math
import os
import statistics
import time
import warnings
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import Any, Literal, NamedTuple

import torch
from omegaconf import OmegaConf
from torch import Tensor

from benching.results import PLATEAU
from benching.workloads import Workload
from ganexp.batch import Batch
from ganexp.cli.composing import compose
from ganexp.config.assemble import dataset_of
from ganexp.config.build import trainer_of
from ganexp.config.check import Plan, check
from ganexp.config.run_data import RunData
from ganexp.data import Dataset, Resident, Streamed, default_folder, feed, load_cached
from ganexp.data.feed import to_range
from ganexp.evaluation import Classifier, Evaluator, PerChannel, real_batches
from ganexp.facts import UserError
from ganexp.logging import Row
from ganexp.sources import PreviewSamples
from ganexp.streams import stream
from ganexp.training import Evaluation, Trainer
from ganexp.training.guard import Diverged
from ganexp.training.run import Callback, Run

JUDGEMENTS = 10
"""How many times every run is judged, evenly over its iterations."""
TRIAL = 5
"""How many iterations are timed to tell how long one takes."""
REAL_SETS = 20
"""The number of sets of real data over which the floor is averaged."""
COMMON = ("sample_every=0", "checkpoint_every=0", "evaluate_every=0", "logger=[]", "threads=1")
Part = Literal["tuning", "test"]


@dataclass(frozen=True)
class Task:
    """A run to be made.

    Args:
        workload: What it is tried on.
        overrides: The rule and its optimiser, as for `train.py`.
        settings: What is tuned: rates and coefficients.
        seed: The seed.
        part: Tuning runs are judged on the validation split, test runs on the test split.
        iterations: How many exhaust the budget of real images.
    """

    workload: Workload
    overrides: tuple[str, ...]
    settings: tuple[str, ...]
    seed: int
    part: Part
    iterations: int


@dataclass
class Outcome:
    """The outcome of a run.

    Args:
        state: `finished`, or `diverged`.
        figures: The figures of its judgements, as far as it got.
        plain: Those of the generator without averaged weights, at the last `PLATEAU` judgements.
        cpu_s: Core-seconds of its training, without the judgements.
    """

    state: str
    figures: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    plain: list[float] = field(default_factory=list)


class Splits(NamedTuple):
    """The data of a workload: for training, for tuning, and for the test."""

    training: Any
    validation: Tensor
    test: Tensor
    classes: Tensor
    """Of the validation split."""


def say_little() -> None:
    """Lower this process's priority, and log errors only."""
    with contextlib.suppress(OSError):
        os.nice(max(0, 19 - os.nice(0)))
    logging.getLogger("ganexp").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=UserWarning)


def run(task: Task) -> Outcome:
    """Make a run, which depends on its task alone, whatever was run before in this process.

    Raises:
        UserError: The rule does not fit the workload, or the data cannot be obtained.
    """
    torch.set_num_threads(1)
    cfg = _configured(task.workload, task.overrides, task.settings)
    cfg.seed, cfg.iterations, cfg.log_every = task.seed, task.iterations, max(1, task.iterations // JUDGEMENTS)
    data = _data(task.workload)
    judged = data.test if task.part == "test" else data.validation
    obtained = _obtained(cfg, _dataset(task.workload), data.training, judged)
    trainer = trainer_of(check(cfg, trust=None), None, obtained=obtained)
    judge = _Judge(cfg.log_every, evaluators(task.workload)[task.part == "test"], task.workload)
    trainer.callbacks.append(judge)
    outcome = Outcome("finished", judge.figures, plain=judge.plain)
    before_s = time.process_time()
    try:
        trainer.fit()
    except (Diverged, UserError):
        outcome.state = "diverged"
    except RuntimeError as error:  # such as a singular matrix where weights are no longer finite
        if not _is_lost(trainer):
            raise
        logging.getLogger(__name__).info("Taken for diverged: %s", error)
        outcome.state = "diverged"
    outcome.cpu_s = time.process_time() - before_s - judge.cpu_s
    if outcome.state == "finished" and len(judge.figures) < JUDGEMENTS:
        outcome.state = "diverged"
    return outcome


def trial(workload: Workload, overrides: tuple[str, ...], settings: tuple[str, ...]) -> tuple[float, int]:
    """Return how many core-seconds an iteration takes, and how many real samples it draws, without reading data.

    Raises:
        UserError: The rule does not fit the workload.
    """
    torch.set_num_threads(1)
    trainer = on_noise(workload, overrides, settings)
    trainer.step(trainer.reals)
    images = trainer.reals.images
    before_s = time.process_time()
    for _ in range(TRIAL):
        trainer.step(trainer.reals)
    return (time.process_time() - before_s) / TRIAL, images


def on_noise(workload: Workload, overrides: tuple[str, ...], settings: tuple[str, ...]) -> Trainer:
    """Build the trainer of a rule on samples of noise, for what depends on their shape alone."""
    cfg = _configured(workload, overrides, settings)
    dataset = _dataset(workload)
    samples = torch.rand(4 * cfg.batch_size, *dataset.shape, generator=stream(0, "noise")) * 2 - 1
    return trainer_of(check(cfg, trust=None), None, obtained=_obtained(cfg, dataset, samples, samples))


@cache
def evaluators(workload: Workload) -> tuple[Evaluator, Evaluator]:
    """Return the evaluators on the validation and on the test split. The classifier is trained if it is missing."""
    data = _data(workload)
    return _evaluator(workload, data.validation), _evaluator(workload, data.test)


def judge_of(workload: Workload) -> str:
    """Return the identity of the features in which a workload is judged; empty if there are none."""
    features = evaluators(workload)[0].features
    return f"{features.name} {features.checksum}" if features.checksum else ""


@cache
def collapsed(workload: Workload) -> float:
    """Return the figure of real validation data without the latter half of the classes.

    A run that ends no better has collapsed.
    """
    data = _data(workload)
    there = data.validation[data.classes < (int(data.classes.max()) + 1) // 2]
    drawn = torch.randint(len(there), (workload.samples,), generator=stream(0, "half of the classes"))
    batches = to_range(there[drawn], torch.float32).split(250)
    return evaluators(workload)[0](batches)[workload.judge]


@cache
def floor(workload: Workload) -> float:
    """Return the figure of real training data against the test split: the mean over sets as large as those of a run.

    They are drawn with replacement, since small data sets have fewer samples.
    """
    generator, training = stream(0, "real data"), _data(workload).training
    figures = []
    for _ in range(REAL_SETS):
        real = training[torch.randint(len(training), (workload.samples,), generator=generator)]
        figures.append(evaluators(workload)[1](to_range(real, torch.float32).split(250))[workload.judge])
    return statistics.fmean(figures)


class _Judge(Callback):
    """Judges a run's averaged generator, and stops a run whose samples have no figure; in the end, the plain one as well."""

    def __init__(self, every: int, evaluator: Evaluator, workload: Workload) -> None:
        self.every, self.workload = every, workload
        self.evaluation = Evaluation(every, evaluator, samples=workload.samples)
        self.figures: list[float] = []
        self.plain: list[float] = []
        self.cpu_s = 0.0

    def __call__(self, run: Run) -> Row:
        if run.iteration // self.every > JUDGEMENTS or run.iteration % self.every:
            return {}
        before_s = time.process_time()
        figure = self.evaluation.figures(run.step.average.generator, run.gan.prior)[self.workload.judge]
        if len(self.figures) >= JUDGEMENTS - PLATEAU:
            self.plain.append(self._of_plain(run))
        self.cpu_s += time.process_time() - before_s
        self.figures.append(figure)
        return {}

    def _of_plain(self, run: Run) -> float:
        """Return the figure of the plain generator, infinite if it has none, which does not end the run."""
        try:
            return self.evaluation.figures(run.gan.generator, run.gan.prior)[self.workload.judge]
        except UserError:
            return math.inf


def _is_lost(trainer: Trainer) -> bool:
    networks = (trainer.gan.generator, trainer.gan.discriminator)
    return not all(bool(torch.isfinite(weights).all()) for network in networks for weights in network.parameters())


def _configured(workload: Workload, overrides: tuple[str, ...], settings: tuple[str, ...]) -> Any:
    """Compose once, and put rates and coefficients into a copy."""
    device = "cuda" if workload.machine == "gpu" and torch.cuda.is_available() else "cpu"
    fresh = tuple(one for one in settings if one.startswith("+"))
    cfg = OmegaConf.create(dict(_composed((*workload.overrides, *COMMON, f"device={device}", *overrides, *fresh))))
    for setting in settings:
        if setting not in fresh:
            key, _, value = setting.partition("=")
            OmegaConf.update(cfg, key, OmegaConf.from_dotlist([f"value={value}"]).value)
    return cfg


@lru_cache(maxsize=64)
def _composed(overrides: tuple[str, ...]) -> Any:
    return compose(*overrides)


@cache
def _plan(workload: Workload) -> Plan:
    """Return the plan of a run that is evaluated, which says how to make its judge."""
    judge = workload.judge.removeprefix("eval/")
    cfg = _configured(workload, (f"measure=[{judge}]",), ())
    cfg.evaluate_every, cfg.evaluation.samples = 1, workload.samples
    return check(cfg)


@cache
def _dataset(workload: Workload) -> Dataset:
    plan = _plan(workload)
    return dataset_of(plan.choices["dataset"], plan.config.seed)


def _obtained(cfg: Any, dataset: Dataset, data: Any, judged: Tensor) -> RunData:
    """Return the data of a run; where they have sources, it is judged by what G makes of those of `judged`."""
    device = torch.device(cfg.device)
    reals: Resident | Streamed = feed(
        data, cfg.batch_size, seed=cfg.seed, device=device, dtype=torch.float32, digest="", derive=dataset.derive
    )
    preview = None
    if dataset.source_shape:
        preview = PreviewSamples(
            lambda places: dataset.derive(Batch(to_range(judged[[*places]], torch.float32))), len(judged), dataset.paired
        )
    return RunData(dataset, reals, None, preview)


def _evaluator(workload: Workload, data: Tensor) -> Evaluator:
    plan = _plan(workload)
    assert plan.evaluation is not None
    evaluator = replace(plan.evaluation, dataset=_dataset(workload)).evaluator(plan.machine)
    judge = evaluator.features.of if isinstance(evaluator.features, PerChannel) else evaluator.features
    if isinstance(judge, Classifier) and judge.record.shape[1:] != plan.facts.shape[1:]:
        own, size = judge.record.shape[-1], plan.facts.shape[-1]
        raise UserError(
            f"{workload.name}: the classifier that judges was trained at {own}×{own}, and should be at {size}×{size}: type "
            f"ganexp features {judge.record.dataset} dataset.image_size={size}."
        )
    evaluator.see_reals(partial(real_batches, data, plan.machine.device), len(data))
    return evaluator


@cache
def _data(workload: Workload) -> Splits:
    dataset = _dataset(workload)
    loaded = _loaded(dataset)
    if workload.splits == "drawn":
        validation = dataset.held_out()
        test = validation.held_out() if validation else None
        assert validation is not None
        assert test is not None
        n = workload.samples
        return Splits(loaded, _loaded(validation)[:n], _loaded(test)[:n], validation.labels()[:n])
    order = torch.randperm(len(loaded), generator=stream(0, "splits of the bench"))
    sixth = len(loaded) // 6
    validated, further, training = order.split([sixth, sixth, len(order) - 2 * sixth])
    if workload.splits == "test part":
        held_out = dataset.held_out()
        if held_out is None:
            raise FileNotFoundError(f"{workload.name} needs the test part of its data set, which is not there")
        training, test_data = torch.cat([training, further]), _loaded(held_out)
    else:
        test_data = loaded[further]
    return Splits(loaded[training.sort().values], loaded[validated], test_data, dataset.labels()[validated])


def _loaded(dataset: Dataset) -> Tensor:
    loaded = load_cached(dataset, default_folder(), place="resident")
    assert isinstance(loaded, Tensor)
    return loaded
