"""Runs of training, many at once, each evaluated as it goes."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from matplotlib.figure import Figure
from torch import Tensor
from tqdm import tqdm

from experiments.workers import workers
from ganexp import GAN, Trainer, build, compose
from ganexp.cli.commands.compare.cases import trainer_of
from ganexp.data import Ring
from ganexp.evaluation import Evaluator
from ganexp.logging.pictures import image_grid
from ganexp.strategies.base import as_strategy
from ganexp.training.callbacks.drawing import samples_of, unchanged

Probe = Callable[[GAN], dict[str, float]]


@dataclass(frozen=True)
class Job:
    """A configuration to train for `iterations`, evaluated `times` times, by `evaluator` and perhaps a further probe."""

    overrides: tuple[str, ...]
    iterations: int
    times: int
    evaluator: Evaluator
    strategy: Callable[..., None] | None = None
    """In place of the configured one, for an experiment with a strategy of its own."""
    probe: Probe | None = None


@dataclass
class Course:
    """The results of a job: iterations at which it was evaluated, figures there, and the last samples."""

    iterations: list[int] = field(default_factory=list)
    figures: list[dict[str, float]] = field(default_factory=list)
    samples: Tensor = field(default_factory=lambda: torch.empty(0))

    def curve(self, name: str) -> list[float]:
        """Return one figure over the iterations."""
        return [figures[name] for figures in self.figures]


def rows_of(arms: Mapping[str, Sequence[Job]], courses: Mapping[str, Sequence[Course]]) -> list[dict[str, object]]:
    """Return what was measured in all runs, a row for each evaluation."""
    return [
        {"settings": " ".join(job.overrides), "arm": arm, "iteration": iteration, **figures}
        for arm, jobs in arms.items()
        for job, course in zip(jobs, courses[arm], strict=True)
        for iteration, figures in zip(course.iterations, course.figures, strict=True)
    ]


def train_all(arms: Mapping[str, Sequence[Job]]) -> dict[str, list[Course]]:
    """Run the jobs of all arms side by side, one thread each; on a GPU one after another."""
    jobs = [job for own in arms.values() for job in own]
    count = 1 if torch.cuda.is_available() else min(len(jobs), os.cpu_count() or 1)
    processes: AbstractContextManager[ProcessPoolExecutor | None] = nullcontext() if count == 1 else workers(count)
    with processes as pool:
        made = pool.map(train, jobs) if pool else map(train, jobs)
        courses = iter([*tqdm(made, total=len(jobs), disable=None, unit="run")])
    return {arm: [next(courses) for _ in own] for arm, own in arms.items()}


def train(job: Job) -> Course:
    """Run one job."""
    trainer = build(compose(*job.overrides))
    if job.strategy:
        trainer.step.strategy = as_strategy(job.strategy)
    course = Course()
    moments = {round(job.iterations * (i + 1) / job.times) for i in range(job.times)}
    for iteration in range(1, job.iterations + 1):
        trainer.step(trainer.reals)
        if iteration in moments:
            samples = drawn(trainer, job.evaluator.samples).cpu()
            course.iterations.append(iteration)
            course.figures.append(job.evaluator(samples.split(500)) | (job.probe(trainer.gan) if job.probe else {}))
            course.samples = samples[: 64 if samples.dim() == 4 else 1000]
    return course


def last_samples(courses: Mapping[str, Course]) -> Figure:
    """Draw the last samples of runs side by side, by their titles: images, or points around the modes of the ring."""
    figure = Figure(figsize=(3 * len(courses), 3.3), layout="constrained")
    for axes, (title, course) in zip(figure.subplots(1, len(courses)), courses.items(), strict=True):
        if course.samples.dim() == 4:
            axes.imshow(image_grid(course.samples))
        else:
            axes.scatter(*course.samples.T, s=2, alpha=0.5)
            axes.scatter(*Ring().centers.T, s=60, facecolors="none", edgecolors="0.6")
            axes.set(aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
        axes.set(title=title, xticks=[], yticks=[])
    return figure


def drawn(trainer: Trainer, n: int) -> Tensor:
    """Draw samples from the averaged generator, the same latents every time."""
    generator = trainer.step.average.generator
    with unchanged(trainer.gan.prior, generator):
        return torch.cat([samples_of(generator, z) for z in trainer.gan.prior.fixed(n).split(500)])


@functools.cache
def weights_after(iterations: int, strategy: str) -> Tensor:
    """Return G's weights after `iterations` iterations of a small GAN in float64, always from the same start."""
    trainer = trainer_of("generator=mlp", "discriminator=mlp", "precision=fp64", "device=cpu", f"strategy={strategy}")
    for _ in range(iterations):
        trainer.step(trainer.reals)
    return torch.cat([p.detach().flatten() for p in trainer.gan.generator.parameters()])
