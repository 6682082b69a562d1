"""Evaluation after training: a checkpoint against the data of its run, or a folder of images against any data."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset as MapStyle

from ganexp.batch import Batch
from ganexp.config.assemble import dataset_of, prior_of
from ganexp.config.check import facts_of
from ganexp.config.choices import choose, chosen_of, name_of
from ganexp.config.decoders import with_decoder
from ganexp.config.evaluation import plan_evaluation
from ganexp.config.loading import load
from ganexp.config.parsing import parse
from ganexp.config.plain import evaluated
from ganexp.config.run_data import looked_at_of, reals_of
from ganexp.config.schema import Config
from ganexp.config.targets import Trust
from ganexp.config.untrusted import checked
from ganexp.data import Dataset
from ganexp.data.feed import to_range
from ganexp.data.unscaled import Pictures
from ganexp.distributed.processes import Processes
from ganexp.evaluation import Evaluator, Raw, real_batches
from ganexp.evaluation.measures.pairs import PairMeasure
from ganexp.evaluation.nearest import nearest
from ganexp.facts import Facts, UserError
from ganexp.instruments.scalar import Scalar
from ganexp.printable import printable
from ganexp.prior import Prior
from ganexp.training import CheckpointError, checkpoint, execution

SHOWN, POINTS = 64, 250
"""How many of the measured images, or points, are kept for pictures."""


@dataclass
class EvaluationResult:
    """The figures of one set of samples and their descriptions, by key, and the first samples `(n, …)`, for pictures."""

    figures: dict[str, float]
    measures: dict[str, Scalar]
    dataset: str
    data: str
    """What distinguishes the data, as prepared, from any others: figures are comparable only where it is the same."""
    samples: Tensor = field(repr=False)
    iteration: int | None = None


class RunEvaluator:
    """Real data, features and measures, as a configuration says; read once, for any number of sets of samples.

    Args:
        config: The configuration.
        processes: The processes that evaluate together; only the one that writes has figures.

    Raises:
        UserError: The data, a measure or features cannot be obtained.
    """

    def __init__(self, config: Config, processes: Processes | None = None) -> None:
        self.processes = processes or Processes()
        self.machine = execution.Machine.resolved(config.device, config.precision)
        self._set_up(config)
        chosen = choose("dataset", config.dataset)
        with chosen.saying():
            dataset = with_decoder(dataset_of(chosen, config.seed), self.machine.device)
        facts = facts_of(config, self.machine, self.processes.count, dataset)
        plan = plan_evaluation(chosen_of(config, "measure"), config, facts)
        if missing := plan.missing():
            raise UserError(" ".join(missing))
        self.shape = facts.shape
        self.pictured, self.shown = dataset.pictured, dataset.picture_shape
        self.reals, self.frequencies = reals_of(config, self.machine, facts.classes, dataset)
        self.reals.close()  # nothing is to be read ahead
        self.looked_at = looked_at_of(dataset, self.reals.data, facts.classes, self.machine) if facts.source_shape else None
        plan = plan.of_at_most(self.looked_at.count) if self.looked_at else plan
        evaluator = plan.evaluator(self.machine)
        assert evaluator is not None
        self.evaluator, self.evaluation = evaluator, plan.callback(self.machine, self.reals, self.processes, evaluator)
        self.dataset = name_of(config.dataset)
        self.data = plan.compared_with(self.reals).identity or json.dumps(
            [config.dataset, config.evaluation.against], sort_keys=True
        )

    def checkpoint(self, path: Path, config: Config, state: Mapping[str, Any], *, trust: Trust = ()) -> EvaluationResult:
        """Evaluate the generator in a checkpoint of a run on these data, with the latents that its run is evaluated on.

        Args:
            path: The checkpoint.
            config: Its run's configuration, which agrees with this evaluator's in all that concerns data, measures and machine.
            state: What the checkpoint holds, as `config_of` has read it.
            trust: As for `config_of`.

        Raises:
            CheckpointError, UserError: The checkpoint cannot be loaded.
            UserError: A measure has no value.
        """
        self._set_up(config)  # another evaluator may have chosen other kernels since
        network, prior, samples = self.processes.together(lambda: self._loaded(path, config, state, trust))
        return self._result(self.evaluation.figures(network, prior), samples, state["run"]["iteration"])

    def _set_up(self, config: Config) -> None:
        execution.set_up(self.machine, deterministic=config.deterministic, threads=config.threads)

    def _loaded(self, path: Path, config: Config, state: Mapping[str, Any], trust: Trust) -> tuple[nn.Module, Prior, Tensor]:
        machine, averaged = self.machine, config.evaluation.of == "average"
        trained = load(path, trust=trust, device=machine.device, averaged=averaged, state=state)
        network = trained.network
        execution.lay_out(network, machine, config.channels_last, compiled=config.compile)  # which changes the rounding
        prior = prior_of(config, machine.device, machine.dtype, self.frequencies, self.looked_at)
        if trained.classes != prior.classes:
            raise CheckpointError(f"{path} has {trained.classes} classes, but its data have {prior.classes}")
        samples = self.evaluation.first(network, prior, SHOWN if len(self.shape) == 3 else POINTS)
        if tuple(samples.shape[1:]) != self.shown:
            raise CheckpointError(f"{path} makes samples of shape {tuple(samples.shape[1:])}, and its data are {self.shown}")
        return network, prior, samples

    def images(self, data: MapStyle[Tensor]) -> EvaluationResult:
        """Evaluate images; there must be `evaluation.samples` of them.

        Raises:
            UserError: An image cannot be decoded, or a measure has no value.
        """
        place = (self.machine.device, self.machine.dtype)
        try:
            figures = self.evaluator(map(Batch, real_batches(data, *place)))
            return self._result(figures, next(real_batches(data, *place))[:SHOWN])
        except OSError as error:
            raise UserError(str(error)) from error

    def nearest(self, samples: Tensor, k: int, *, in_features: bool) -> tuple[Tensor, Tensor]:
        """Find the nearest real samples, as `ganexp.evaluation.nearest` does, in features or in pixels."""

        def see(batch: Tensor) -> Tensor:
            return self.evaluator.features(batch)[0] if in_features else batch.flatten(1)

        return nearest(samples, self._real_batches(), see, k)

    def some_reals(self) -> Tensor:
        """Return a batch of real samples, drawn at random."""
        return next(self._real_batches())

    def _real_batches(self) -> Iterator[Tensor]:
        return real_batches(self.reals.data, self.machine.device, self.machine.dtype, derive=self.pictured)

    def _result(self, figures: dict[str, float], samples: Tensor, iteration: int | None = None) -> EvaluationResult:
        return EvaluationResult(figures, self.evaluator.keys, self.dataset, self.data, samples, iteration)


def evaluate_pairs(config: Config, place: Path, targets: Path) -> EvaluationResult:
    """Compare the images of a folder or zip archive with those of the same names in another one, each pair in its own size.

    Args:
        config: Its measures are measures of pairs.
        place: The images.
        targets: What they should be; their black and white hold for both, if they have more than eight bits. A name is the path
            below the folder or archive, without its extension.

    Raises:
        UserError: A measure is not of pairs or cannot be computed, an image has no partner of its name or size, or cannot
            be read.
    """
    machine = execution.Machine.resolved(config.device, config.precision)
    choices = {one.key.partition(".")[2]: one for one in chosen_of(config, "measure")}
    measures = {name: choice.make() for name, choice in choices.items()}
    for name, measure in measures.items():
        if not isinstance(measure, PairMeasure):
            sets = f"--dataset image_folder --set dataset.path={targets}"
            raise UserError(f"measure.{name} compares sets, and not images of one name: say {sets} for it")
    expected = Pictures(targets, 3)
    sides = [Pictures(place, 3, value_range=expected.value_range), expected]
    for one, other in zip(sides, sides[::-1], strict=True):
        one.refuse_lost()
        if lone := sorted(one.files.keys() - other.files.keys()):
            file, count = printable(one.files[lone[0]]), f"{len(lone):,} of the {len(one.files):,}"
            raise UserError(f"{file} has no image of its name in {printable(other.path)}, as {count} have not: remove those")
    asked: set[tuple[int, ...]] = set()

    def pairs() -> Iterator[Batch]:
        for name in sides[0].files:
            pair = [to_range(one[name][None].to(machine.device), machine.dtype) for one in sides]
            shape, shape_of_target = (tuple(one.shape[1:]) for one in pair)
            if shape != shape_of_target:
                said = ["×".join(map(str, one[1:])) for one in (shape, shape_of_target)]
                raise UserError(
                    f"{printable(sides[0].files[name])} has {said[0]} pixels, and its target {said[1]}: scale one of them"
                )
            if shape not in asked:
                asked.add(shape)
                like = Dataset()
                like.shape = like.source_shape = shape
                for one, choice in choices.items():
                    choice.ask(measures[one].check, Facts(shape=shape, dataset=like))
            yield Batch(pair[0], target=pair[1])

    evaluator = Evaluator(measures, Raw((3, 1, 1)), samples=len(sides[0].files))
    try:
        figures = evaluator(pairs())
    except OSError as error:
        raise UserError(str(error)) from error
    return EvaluationResult(figures, dict(evaluator.keys), targets.name, f"pairs with {targets.resolve()}", torch.empty(0))


def config_of(
    path: Path, asked: dict[str, Any], *, trust: Trust = (), decode: str | None = None
) -> tuple[Config, Mapping[str, Any]]:
    """Read a checkpoint, and return the configuration of its run, with the requested values in place of its own, and all of it.

    Args:
        path: The checkpoint, which may be anyone's.
        asked: Values for `measure`, `device` and the keys below `evaluation`; where one is None, the run's own is kept.
        trust: Modules besides ganexp's that its parts may come from.
        decode: What makes images of its data, which are latents, in place of what it names.

    Raises:
        CheckpointError: The checkpoint cannot be read.
        UserError: The configuration has a mistake, or names code that is not trusted.
    """
    state = checkpoint.load(path)
    typed = [] if asked.get("features") is None else ["evaluation.features"]
    values = evaluated(state["config"], asked) | {"logger": {}}
    if decode is not None and isinstance(values.get("dataset"), dict):
        if "decode" not in values["dataset"]:
            raise UserError(f"--decode is for runs on latents, and {path} is of none: leave it out")
        values["dataset"] = values["dataset"] | {"decode": decode}
        typed.append("dataset.decode")
    remedy = "name it yourself with --features or --decode, if it is your own"
    config = parse(checked(values, str(path), typed=typed, trust=trust, remedy=remedy))
    choose("dataset", config.dataset, trust)
    if asked.get("measure") is None:
        chosen_of(config, "measure", trust)
    return config, state
