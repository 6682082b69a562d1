"""The data of a run, loaded before it has a folder: training data, held-out samples, and its evaluation."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.batch import Batch
from ganexp.config.assemble import dataset_of
from ganexp.config.check import Plan
from ganexp.config.decoders import with_decoder
from ganexp.config.evaluation import Comparison, labels_of
from ganexp.config.perceiving import distances_of
from ganexp.config.schema import Config
from ganexp.data import Dataset, Resident, Streamed, default_folder, feed, load_cached
from ganexp.data.feed import to_range
from ganexp.distributed.processes import Processes
from ganexp.evaluation import real_batches
from ganexp.facts import Facts, UserError
from ganexp.printable import printable
from ganexp.sources import PreviewSamples
from ganexp.streams import stream
from ganexp.terms import Term
from ganexp.terms.features import Distance
from ganexp.training import Evaluation, execution

log = logging.getLogger(__name__)
MOST_NAMES = 10
"""How many classes the log names, at most."""


@dataclass(frozen=True)
class DataPlan:
    """What of a `Plan` is known of a run that is evaluated, and not trained."""

    config: Config
    machine: execution.Machine
    processes: Processes
    facts: Facts
    evaluation: Comparison
    missing: Sequence[str] = ()


@dataclass(frozen=True)
class RunData:
    """The data of a run, and what is computed from them before it begins.

    Args:
        dataset, reals, frequencies: The data set, its feed, and how often each class occurs.
        preview: The sources that pictures and measurements are made from, if there are sources.
        distances: The distances of perceptual terms, by the names of these.
        evaluation: The evaluation, if there is one; in the process that writes, it has seen the real data.
        identity: What distinguishes the data that samples are compared with from any others; empty if that is not known.
    """

    dataset: Dataset
    reals: Resident | Streamed
    frequencies: list[float] | None
    preview: PreviewSamples | None
    distances: Mapping[str, Distance] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    identity: str = ""

    def pictured(self) -> Iterator[Tensor]:
        """Yield batches of all real samples, as they are measured, in the order of `real_batches`."""
        return real_batches(self.reals.data, self.reals.device, self.reals.dtype, derive=self.dataset.pictured)


def obtain(plan: Plan) -> RunData:
    """Load the data and the features, and compute the evaluation's real statistics. Reseeds the global random streams.

    If images are compared in a classifier's features, the classifier is trained if it is missing. One `UserError` names all
    that is missing or broken.
    """
    execution.set_up(plan.machine, deterministic=plan.config.deterministic, threads=plan.config.threads)
    dataset = dataset_of(plan.choices["dataset"], plan.config.seed)
    if getattr(dataset, "decode", None):
        with_decoder(dataset, plan.machine.device)
    return load_data(plan, dataset, terms=plan.parts.terms, processes=plan.processes)


def load_data(
    plan: Plan | DataPlan, dataset: Dataset, *, terms: Mapping[str, Term] | None = None, processes: Processes | None = None
) -> RunData:
    """Load a data set that has just been made, the features, and the real statistics.

    Args:
        plan: What is known of the run.
        dataset: Its data set, with its decoder.
        terms: The terms of G's objective, some of which may look through a network.
        processes: Those that share each batch of the feed.
    """
    config, machine, missing = plan.config, plan.machine, [*plan.missing]
    comparison, preview = plan.evaluation and replace(plan.evaluation, dataset=dataset), None
    try:
        reals, frequencies = reals_of(config, machine, plan.facts.classes, dataset, processes)
        if dataset.source_shape:
            preview = preview_of(dataset, reals.data, plan.facts.classes, machine)
            comparison = comparison and comparison.of_at_most(preview.count)
    except UserError as error:
        missing.append(str(error))
    evaluator = None
    if comparison and not plan.missing and not (missing and comparison.lacks_classifier):
        try:
            evaluator = comparison.evaluator(machine)
        except UserError as error:
            missing.append(str(error))
    distances: Mapping[str, Distance] = {}
    if terms and not missing:
        try:
            distances = distances_of(terms, dataset, config.dataset, machine.device)
        except UserError as error:
            missing.append(str(error))
    if missing:
        raise UserError(" ".join(missing))
    if not (comparison and evaluator):
        return RunData(dataset, reals, frequencies, preview, distances)
    identity = comparison.see_reals(evaluator, reals, machine) if plan.processes.is_main else ""
    evaluation = Evaluation(
        config.evaluate_every,
        evaluator,
        samples=evaluator.samples,
        of=config.evaluation.of,
        standing=config.evaluation.standing,
        processes=plan.processes,
        pictures=dataset.pictures,
    )
    return RunData(dataset, reals, frequencies, preview, distances, evaluation, identity)


def reals_of(
    config: Config, machine: execution.Machine, classes: int, dataset: Dataset, processes: Processes | None = None
) -> tuple[Resident | Streamed, list[float] | None]:
    """Load the data into the feed, and count how often each class occurs in them."""
    threads = torch.get_num_threads()  # this job's share of the cores
    workers = min(16, threads) if config.workers == "auto" else config.workers
    try:
        if classes:
            log.info("%s: %s.", type(dataset).__name__, _classes_in_words(dataset))
        data = load_cached(dataset, default_folder(), place=config.feed, device=machine.device, workers=workers)
        digest = dataset.digest()
    except OSError as error:
        reason = str(error).strip().splitlines()[-1].removeprefix("OSError: ")  # a worker's error comes with its traceback
        raise UserError(f"dataset: {reason}.") from error
    labels = labels_of(dataset) if classes else None
    _refuse_broken(dataset, data, labels)
    reals = feed(
        data,
        config.batch_size,
        seed=config.seed,
        device=machine.device,
        dtype=machine.dtype,
        place=config.feed,
        workers=workers,
        flip=config.flip,
        digest=digest,
        labels=labels,
        processes=processes,
        derive=dataset.derive,
    )
    return reals, None if labels is None else _frequencies(dataset, labels, classes)


def _frequencies(dataset: Dataset, labels: torch.Tensor, classes: int) -> list[float]:
    """Return how often each class occurs, with a warning about those that do not."""
    counts = torch.bincount(labels, minlength=classes)
    if not counts.all():
        unseen = (counts == 0).nonzero().flatten().tolist()
        named = ", ".join(
            printable(dataset.class_names[index] if dataset.class_names else index) for index in unseen[:MOST_NAMES]
        )
        log.warning("%d of %d classes have no samples, and nothing is learnt of them: %s.", len(unseen), classes, named)
    return counts.double().tolist()


def _classes_in_words(dataset: Dataset) -> str:
    """Return the number and the names of the classes, as text."""
    names = [printable(name[:100]) for name in dataset.class_names] or [f"{place}" for place in range(dataset.classes)]
    shown = names if len(names) <= MOST_NAMES else [*names[: MOST_NAMES - 1], "…", names[-1]]
    return f"{len(names):,} {'class' if len(names) == 1 else 'classes'} ({', '.join(shown)})"


def _refuse_broken(dataset: Dataset, data: torch.Tensor | MapStyle[torch.Tensor], labels: torch.Tensor | None) -> None:
    """Refuse data that break the contract of `Dataset`, such as those of a user's own class."""
    name, n = type(dataset).__name__, len(data)  # type: ignore[arg-type]  # those of a feed have a length
    if not n:
        raise UserError(f"dataset: {name} has loaded no samples: at least one is needed.")
    if isinstance(data, torch.Tensor) and data.shape[1:] != tuple(dataset.loaded_shape):
        raise UserError(
            f"dataset: {name} has loaded samples of shape {tuple(data.shape[1:])}, and says {dataset.loaded_shape}: shape "
            "should be that of a sample."
        )
    if isinstance(data, torch.Tensor) and data.dtype != torch.uint8:
        low, high = data.aminmax()
        if not dataset.bounded and not (low.isfinite() and high.isfinite()):
            raise UserError(f"dataset: {name} has loaded numbers that are not finite: make the file anew.")
        if not data.is_floating_point() or (data.dim() == 4 and dataset.bounded and not -1.001 <= low <= high <= 1.001):
            values = f"{str(data.dtype).removeprefix('torch.')} in [{low:.3g}, {high:.3g}]"
            raise UserError(f"dataset: {name} has loaded {values}: images should be uint8, or floats in [-1, 1].")
    if labels is None:
        return
    if len(dataset.class_names) not in (0, dataset.classes):
        raise UserError(
            f"dataset: {name} has {len(dataset.class_names)} class_names for {dataset.classes} classes: one for each is needed."
        )
    if labels.shape != (n,) or labels.dtype != torch.int64 or labels.min() < 0 or labels.max() >= dataset.classes:
        raise UserError(
            f"dataset: the labels of {name} should be {n} integers (torch.int64) from 0 to {dataset.classes - 1}, one for each "
            "sample."
        )


def held_out_of(dataset: Dataset, classes: int, n: int, machine: execution.Machine) -> Batch | None:
    """Return at most `n` held-out samples, always the same ones; None if there are none on this machine.

    Args:
        dataset: The data set that is trained on.
        classes: The number of classes if networks read labels, which then come with the samples; else 0.
        n: How many.
        machine: The machine whose device and type the samples get.
    """
    others = dataset.held_out()
    if others is None or not others.is_here:  # nothing is downloaded for it
        return None
    try:
        data, labels = load_cached(others, default_folder(), place="streamed"), labels_of(others) if classes else None
        order = torch.randperm(len(data), generator=stream(0, "held-out samples"))  # type: ignore[arg-type]
        return _at(order[:n].tolist(), others, data, labels, machine)
    except (OSError, ValueError) as error:
        log.warning("accuracy/held_out is not logged, since the held-out images cannot be read: %s.", error)
        return None


def preview_of(
    dataset: Dataset, data: torch.Tensor | MapStyle[torch.Tensor], classes: int, machine: execution.Machine
) -> PreviewSamples:
    """Return the sources that pictures and measurements are made from: held-out ones, or else those of training.

    They come in an order of their own, always the same, since data may be sorted by class.
    """
    try:
        others = dataset.held_out()
        if others is None or not others.is_here:
            log.info("The data hold out no samples, so pictures and measurements are made from sources of training.")
            others = None
        else:
            dataset, data = others, load_cached(others, default_folder(), place="streamed")
    except OSError as error:
        raise UserError(f"dataset: {error}.") from error
    order = torch.randperm(len(data), generator=stream(0, "sources to look at")).tolist()  # type: ignore[arg-type]
    labels = labels_of(dataset) if classes else None

    def read(places: Sequence[int]) -> Batch:
        return _at([order[place] for place in places], dataset, data, labels, machine)

    return PreviewSamples(read, len(order), dataset.paired, held_out=others is not None)


def _at(
    indices: list[int],
    dataset: Dataset,
    data: torch.Tensor | MapStyle[torch.Tensor],
    labels: torch.Tensor | None,
    machine: execution.Machine,
) -> Batch:
    """Return the samples of these indices, with their labels if networks read any, and with their sources."""
    samples = data[indices] if isinstance(data, torch.Tensor) else torch.stack([data[index] for index in indices])
    conditions = () if labels is None else (labels[indices].to(machine.device),)
    return dataset.derive(Batch(to_range(samples.to(machine.device), machine.dtype), conditions))
