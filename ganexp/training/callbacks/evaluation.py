"""Measures of a generator's samples against the real set."""

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ganexp.batch import Batch
from ganexp.distributed.processes import Processes
from ganexp.evaluation import Evaluator
from ganexp.facts import UserError
from ganexp.logging import Row
from ganexp.printable import one_line
from ganexp.prior import Prior
from ganexp.training.averages import copy_of
from ganexp.training.callbacks.drawing import samples_of, unchanged
from ganexp.training.run import Callback, Run

log = logging.getLogger(__name__)
BATCH = 250
FAILURES: tuple[type[Exception], ...] = (UserError, RuntimeError, ArithmeticError, ValueError, MemoryError, OSError)
"""Errors of a measure that do not end the training."""

Of = Literal["average", "generator"]


class Evaluation(Callback):
    """Measures samples of a generator, from latents and labels that are always the same, batch by batch.

    Where a measure has no value, as for samples that are not finite, the log says why, and the row has no number. The same
    holds for whatever else goes wrong in a measure, such as a lack of memory: the training goes on.

    Of several processes, each generates and sees its share of the batches, and the one that writes compares them. The batches
    and their order are those of a single process, so the figures are the same; only networks that draw random numbers of
    their own draw different ones.

    Args:
        every: The interval in iterations.
        evaluator: Compares the samples with real ones.
        samples: How many.
        of: The averaged generator, or the one that is trained.
        standing: How many batches of 250 to recompute batch norm's statistics from; 0 keeps the running ones of training.
        processes: All processes of the run. If there are several, only an `UserError` does not end the training, since
            the others would wait for the one that goes on.
        pictures: What is measured of samples: `Dataset.pictures`.
    """

    def __init__(
        self,
        every: int,
        evaluator: Evaluator,
        *,
        samples: int,
        of: Of = "average",
        standing: int = 0,
        processes: Processes | None = None,
        pictures: Callable[[Tensor], Tensor] = lambda samples: samples,
    ) -> None:
        self.every, self.evaluator, self.samples, self.pictures = every, evaluator, samples, pictures
        self.of, self.standing = of, standing
        self.processes = processes or Processes()
        self.failures = FAILURES if self.processes.count == 1 else (UserError,)

    def __call__(self, run: Run) -> Row:
        generator = run.step.average.generator if self.of == "average" else run.gan.generator
        began = time.perf_counter()
        try:
            figures = self.figures(generator, run.gan.prior)
            if run.iteration == self.every < run.iterations and self.processes.is_main:
                self._report_share(run, time.perf_counter() - began)
            return {**figures}
        except self.failures as error:
            reason = one_line(error)
            log.warning("No evaluation at iteration %d: %s.", run.iteration, reason)
            return {}

    def figures(
        self, generator: nn.Module, prior: Prior, shown: Callable[[Iterable[Batch]], Iterable[Batch]] = iter
    ) -> dict[str, float]:
        """Return the figures of a generator, by key, and none in a process that does not write.

        `shown` shows how many batches of latents have been taken. Where a measure has no value, a `UserError` says why.
        """
        with unchanged(prior, generator):
            generator = standing(generator, prior, self.standing)
            latents = shown(prior.in_batches(self.samples, BATCH))
            batches = self.processes.each(lambda z: self.evaluator.extract(self._measured(generator, z)), latents)
            if self.processes.is_main:
                return self.evaluator.compare([tensor.to(prior.device) for tensor in features] for features in batches)
            for _ in batches:  # it yields none here, but this process does its share
                pass
            return {}

    def _report_share(self, run: Run, evaluation_s: float) -> None:
        """Report the share of a run's time that its evaluations take, as the first of them shows it."""
        share = evaluation_s / run.trained_s  # of one interval, with the evaluation at its end
        fitting = math.ceil(9 * evaluation_s / (run.trained_s - evaluation_s) * self.every)
        remedy = f": evaluate_every={fitting} makes it a tenth, or choose fewer evaluation.samples" if share > 0.15 else ""
        log.info(
            "Evaluating %s samples takes %.3g s, every %s iterations: %.0f %% of the time%s.",
            *(f"{self.samples:,}", evaluation_s, f"{self.every:,}", 100 * share, remedy),
        )

    def first(self, generator: nn.Module, prior: Prior, n: int) -> Tensor:
        """Return the first samples that `figures` measures, at most `n`, as they are measured."""
        with unchanged(prior, generator):
            z = next(iter(prior.in_batches(self.samples, BATCH)))
            return self._measured(standing(generator, prior, self.standing), z).values[:n]

    def _measured(self, generator: nn.Module, z: Batch) -> Batch:
        """Return what is measured of the samples that a generator makes from latents, with their labels."""
        return replace(z, values=self.pictures(samples_of(generator, z)), source=z.values)


def standing(generator: nn.Module, prior: Prior, batches: int) -> nn.Module:
    """Return a generator whose batch norms have standing statistics: means over batches (Brock et al. 2019, appendix C).

    The running statistics of an averaged generator are averages of statistics under other weights than its own. The generator
    itself stays as it is, and is returned where it has no batch norm or no batches are asked for. It must be in evaluation
    mode.
    """
    if not batches or not any(isinstance(module, _BatchNorm) for module in generator.modules()):
        return generator
    generator = copy_of(generator)
    norms = [module for module in generator.modules() if isinstance(module, _BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over batches
        norm.train()
    device = next(generator.parameters()).device
    for z in prior.standing(batches * BATCH).split(BATCH):
        samples_of(generator, z.map(lambda tensor: tensor.to(device)))
    return generator.eval()
