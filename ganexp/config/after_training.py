"""Evaluation after training: a checkpoint against the data of its run, or a folder of images against any data."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
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
from ganexp.config.evaluation import comparison_of
from ganexp.config.loading import generator_of
from ganexp.config.parsing import parse
from ganexp.config.plain import evaluated
from ganexp.config.run_data import DataPlan, RunData, load_data
from ganexp.config.schema import Config
from ganexp.config.targets import Trust
from ganexp.config.untrusted import checked
from ganexp.data import Dataset
from ganexp.data.feed import to_range
from ganexp.data.unscaled import Pictures
from ganexp.distributed.processes import Processes
from ganexp.evaluation import Evaluator, Raw, real_batches
from ganexp.evaluation.measures.pairs import PairMeasure
from ganexp.facts import Facts, UserError
from ganexp.instruments.scalar import Scalar
from ganexp.networks.contract import declared
from ganexp.printable import printable
from ganexp.prior import Prior
from ganexp.streams import seed_global_streams, stream
from ganexp.training import CheckpointError, Evaluation, checkpoint, execution
from ganexp.training.callbacks.drawing import samples_of
from ganexp.training.callbacks.samples import MOST_SOURCES

SHOWN, POINTS = 64, 250
"""How many of the measured images, or points, are kept for pictures."""


@dataclass
class Translations:
    """What a translator makes of the first sources that it is measured on.

    Args:
        sources, outputs, targets: `(n, C, H, W)`; targets are None if they are not known.
        two_way: Whether they are stacks of two directions.
        description: How many there are in all, and whether they were held out from training.
        baseline: The figures of measures of pairs for the sources themselves in place of outputs, by key; empty if sources
            have another shape than samples.
    """

    sources: Tensor = field(repr=False)
    outputs: Tensor = field(repr=False)
    targets: Tensor | None = field(repr=False)
    two_way: bool
    description: str
    baseline: dict[str, float]


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
    translations: Translations | None = None


def data_to_evaluate(config: Config, processes: Processes | None = None, dataset: Dataset | None = None) -> RunData:
    """Load the data, the measures and the features that a configuration names, for any number of sets of samples.

    Args:
        config: The configuration.
        processes: The processes that evaluate together; only the one that writes has figures.
        dataset: Its data set, if that has been made already; its draws while loading are the same each time.
    """
    machine, processes = _machine_of(config), processes or Processes()
    chosen = choose("dataset", config.dataset)
    if dataset:
        seed_global_streams(stream(config.seed, "dataset").initial_seed())
    dataset = dataset or dataset_of(chosen, config.seed)
    if getattr(dataset, "decode", None):
        with chosen.saying():
            with_decoder(dataset, machine.device)
    facts = facts_of(config, machine, processes.count, dataset)
    comparison = comparison_of(chosen_of(config, "measure"), config, facts)
    if missing := comparison.missing():
        raise UserError(" ".join(missing))
    data = load_data(DataPlan(config, machine, processes, facts, comparison), dataset)
    data.reals.close()  # nothing is to be read ahead
    return (
        data
        if data.identity
        else replace(data, identity=json.dumps([config.dataset, config.evaluation.against], sort_keys=True))
    )


def evaluate_checkpoint(
    data: RunData,
    path: Path,
    config: Config,
    state: Mapping[str, Any],
    *,
    trust: Trust = (),
    shown: Callable[[Iterable[Batch]], Iterable[Batch]] = iter,
) -> EvaluationResult:
    """Evaluate the generator in a checkpoint of a run on its data, with the latents that its run is evaluated on.

    Args:
        data: The data of its run.
        path: The checkpoint.
        config: Its run's configuration, of which `data` have been loaded, but for what concerns networks.
        state: What the checkpoint holds, as `config_of` has read it.
        trust: As for `config_of`.
        shown: Shows how many batches have been taken, as in `Evaluation.figures`.
    """
    assert data.evaluation
    evaluation = data.evaluation
    network, prior, samples = evaluation.processes.together(partial(_loaded, data, evaluation, path, config, state, trust))
    figures, keys = evaluation.figures(network, prior, shown), evaluation.evaluator.keys
    of_data = (name_of(config.dataset), data.identity)
    result = EvaluationResult(figures, keys, *of_data, samples, state["run"]["iteration"])
    if data.preview and len(data.dataset.shape) == 3:
        result.translations = _translations(data, config, network, prior)
    return result


def _loaded(
    data: RunData, evaluation: Evaluation, path: Path, config: Config, state: Mapping[str, Any], trust: Trust
) -> tuple[nn.Module, Prior, Tensor]:
    """Return the generator in a checkpoint, what it is given, and its first samples, for pictures."""
    machine = _machine_of(config)  # another evaluation may have chosen other kernels since
    network = generator_of(path, state, config, trust).to(machine.device)
    execution.lay_out(network, machine, config.channels_last, compiled=config.compile)  # which changes the rounding
    prior = prior_of(config, machine.device, machine.dtype, data.frequencies, data.preview)
    if state["classes"] != prior.classes:
        raise CheckpointError(f"{path} has {state['classes']} classes, but its data have {prior.classes}")
    samples = evaluation.first(network, prior, SHOWN if len(data.dataset.shape) == 3 else POINTS)
    shape, expected = tuple(samples.shape[1:]), data.dataset.picture_shape
    if shape != expected:
        raise CheckpointError(f"{path} makes samples of shape {shape}, and its data are {expected}")
    return network, prior, samples


class _Unchanged(nn.Module):
    """Returns the source, as a translator that does nothing."""

    def forward(self, source: Tensor, *conditions: Tensor) -> Tensor:
        return source


def _translations(data: RunData, config: Config, network: nn.Module, prior: Prior) -> Translations:
    preview, evaluation = data.preview, data.evaluation
    assert preview
    assert evaluation
    few = prior.fixed(MOST_SOURCES)
    count = min(evaluation.samples, preview.count)
    what = f"{'held-out' if preview.held_out else 'training'} {'pairs' if preview.paired else 'sources'}"
    measures = {choice.key.partition(".")[2]: choice.make() for choice in chosen_of(config, "measure")}
    of_pairs = {
        name: measure
        for name, measure in measures.items()
        if isinstance(measure, PairMeasure)
        and measure.keys.keys() <= evaluation.evaluator.keys.keys()  # `auto` offers more than it takes
    }
    baseline: dict[str, float] = {}
    if of_pairs and preview.paired and data.dataset.source_shape == data.dataset.shape:
        evaluator = Evaluator(of_pairs, Raw((3, 1, 1)), samples=count)
        pictures, processes = data.dataset.pictures, evaluation.processes
        of_sources = Evaluation(0, evaluator, samples=count, processes=processes, pictures=pictures)
        baseline = of_sources.figures(_Unchanged(), prior)
    with torch.no_grad():
        outputs = samples_of(network, few)
    return Translations(few.values, outputs, few.target, declared(network).two_way, f"{count:,} {what}", baseline)


def evaluate_images(data: RunData, config: Config, images: MapStyle[Tensor]) -> EvaluationResult:
    """Evaluate images against data; there must be `evaluation.samples` of them."""
    assert data.evaluation
    evaluator, place = data.evaluation.evaluator, (data.reals.device, data.reals.dtype)
    try:
        figures = evaluator(map(Batch, real_batches(images, *place)))
        samples = next(real_batches(images, *place))[:SHOWN]
        return EvaluationResult(figures, evaluator.keys, name_of(config.dataset), data.identity, samples)
    except OSError as error:
        raise UserError(str(error)) from error


def _machine_of(config: Config) -> execution.Machine:
    """Return the machine of a configuration, set up as it says."""
    machine = execution.Machine.resolved(config.device, config.precision)
    execution.set_up(machine, deterministic=config.deterministic, threads=config.threads)
    return machine


def evaluate_pairs(config: Config, place: Path, targets: Path) -> EvaluationResult:
    """Compare the images of a folder or zip archive with those of the same names in another one, each pair in its own size.

    Args:
        config: Its measures are measures of pairs.
        place: The images.
        targets: What they should be; their black and white hold for both, if they have more than eight bits. A name is the path
            below the folder or archive, without its extension.
    """
    machine = execution.Machine.resolved(config.device, config.precision)
    choices = {choice.key.partition(".")[2]: choice for choice in chosen_of(config, "measure")}
    measures = {name: choice.make() for name, choice in choices.items()}
    for name, measure in measures.items():
        if not isinstance(measure, PairMeasure):
            sets = f"--dataset image_folder --set dataset.path={targets}"
            raise UserError(f"measure.{name} compares sets, and not images of one name: say {sets} for it")
    expected = Pictures(targets, 3)
    sides = [Pictures(place, 3, value_range=expected.value_range), expected]
    for side, other in zip(sides, sides[::-1], strict=True):
        side.refuse_lost()
        if lone := sorted(side.files.keys() - other.files.keys()):
            file, count = printable(side.files[lone[0]]), f"{len(lone):,} of the {len(side.files):,}"
            raise UserError(f"{file} has no image of its name in {printable(other.path)}, as {count} have not: remove those")
    asked: set[tuple[int, ...]] = set()

    def pairs() -> Iterator[Batch]:
        for name in sides[0].files:
            pair = [to_range(side[name][None].to(machine.device), machine.dtype) for side in sides]
            shape, shape_of_target = (tuple(images.shape[1:]) for images in pair)
            if shape != shape_of_target:
                sizes = ["×".join(map(str, size[1:])) for size in (shape, shape_of_target)]
                raise UserError(
                    f"{printable(sides[0].files[name])} has {sizes[0]} pixels, and its target {sizes[1]}: scale one of them"
                )
            if shape not in asked:
                asked.add(shape)
                like = Dataset()
                like.shape = like.source_shape = shape
                for key, choice in choices.items():
                    choice.ask(measures[key].check, Facts(shape=shape, dataset=like))
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
