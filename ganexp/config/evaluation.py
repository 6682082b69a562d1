"""How a configured run is evaluated: which measures, in which features, against which data."""

import difflib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ganexp.config.schema import Config, ConfigError, Node
from ganexp.config.sections import EvaluationConfig
from ganexp.config.targets import arguments, name_of
from ganexp.data import Dataset, Resident, StackedMNIST, Streamed, default_folder
from ganexp.data.digest import of_data
from ganexp.distributed.processes import Processes
from ganexp.evaluation import MEASURES, Classifier, EvaluationError, Evaluator, Exported, Features, Inception, PerChannel, Raw
from ganexp.evaluation.classifier import stored
from ganexp.evaluation.evaluator import real_batches
from ganexp.evaluation.library import needed
from ganexp.evaluation.modes import Classes, Gaussians, Modes
from ganexp.instruments.measure import Measure
from ganexp.streams import undisturbed
from ganexp.training import Evaluation, SharedEvaluation
from ganexp.training.execution import Machine

log = logging.getLogger(__name__)
OF_IMAGES = ("fid", "kid", "precision_recall", "density_coverage")
OF_POINTS = ("sliced_wasserstein",)


def classifier_file(node: Node) -> Path:
    """Return where the classifier of a dataset lies: beside the decoded sets, one for each of one's own `path` or `dataset`."""
    given = {key: node[key] for key in ("path", "dataset") if key in node}
    path = given.get("path")
    if isinstance(path, str) and "://" not in path:
        given["path"] = str(Path(path).expanduser().resolve())
    return stored(default_folder().with_name("features"), name_of(node), json.dumps(given, sort_keys=True) if given else "")


def measures_chosen(config: Config, dataset: Any, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of the measures of a run; none if it is not evaluated."""
    if not config.evaluate_every:
        return ()
    asked = config.evaluation.measures
    if asked != "auto":
        return tuple(dict.fromkeys(asked))
    return (OF_IMAGES if len(shape) == 3 else OF_POINTS) + (("modes",) if _knows_modes(dataset) else ())


def figures_of(config: Config, dataset: Any, shape: tuple[int, ...]) -> dict[str, Measure]:
    """Return which keys the rows of a run have beside those of its loss."""
    names = measures_chosen(config, dataset, shape)
    return {key: measure for name in names for key, measure in MEASURES[name].keys.items()}


def refuse_evaluation(config: Config, dataset: Any, shape: tuple[int, ...]) -> None:
    """Refuse measures and features that cannot be had, as far as that is known without data.

    Raises:
        ConfigError: One cannot.
    """
    names = measures_chosen(config, dataset, shape)
    if not names:
        return
    if "modes" in names and not _knows_modes(dataset):
        raise ConfigError(
            f"evaluation.measures=modes needs data whose modes are known, and those of dataset={name_of(config.dataset)} are "
            "not: choose ring, grid or stacked_mnist, other measures, or evaluate_every=0."
        )
    asked = _features_asked(config, shape)
    if asked == "raw" or not _sees(names, dataset):
        return
    if len(shape) != 3:
        raise ConfigError(
            f"evaluation.features={asked} sees images, and dataset={name_of(config.dataset)} has none: choose raw."
        )


def missing_for_evaluation(config: Config, dataset: Any, shape: tuple[int, ...]) -> list[str]:
    """Say, one sentence each, which files and packages an evaluation lacks here."""
    names, said = measures_chosen(config, dataset, shape), []
    asked = _features_asked(config, shape)
    path = _path_of(asked, config, dataset) if _sees(names, dataset) else None
    if path and not path.is_file():
        if asked != "classifier":
            remedy = "choose classifier, inception, raw, or a file that is there"
        elif getattr(dataset, "classes", 0):
            remedy = f"train them by ganexp features {path.stem}, or choose inception, raw or a file"
        else:
            remedy = "they can be trained on labelled images only, so choose inception, raw or a file"
        said.append(f"evaluation.features={asked} are not there, in {path}: {remedy}.")
    for library in sorted({MEASURES[name].library for name in names} - {""}):
        try:
            needed(library)
        except EvaluationError as error:
            said.append(f"evaluation: {error}.")
    return said


def without_effect(config: Config, figures: Mapping[str, Measure]) -> list[str]:
    """Say, one sentence each, what is asked of an evaluation and will not be had."""
    said = []
    asked = {key: value for key, value in config.evaluation if value != EvaluationConfig.model_fields[key].default}
    if asked and not config.evaluate_every:
        keys = " and ".join(f"evaluation.{key}" for key in asked)
        said.append(f"There is no evaluation, so nothing comes of {keys}: choose evaluate_every=….")
    best = config.keep_best
    if best and best.startswith("eval/") and best not in figures:
        close = difflib.get_close_matches(best, figures, n=1)
        said.append(
            f"keep_best={best} is no figure of this evaluation{f', as {close[0]} is' if close else ''}: there will be no "
            "best checkpoint unless a callback of your own makes it."
        )
    return said


def evaluator_of(config: Config, machine: Machine, dataset: Dataset) -> Evaluator | None:
    """Make what evaluates a run, before it has seen the data; None if the run is not evaluated. Moves no random stream.

    Raises:
        ConfigError: A measure or features cannot be had.
    """
    names = measures_chosen(config, dataset, dataset.shape)
    if not names:
        return None
    try:
        with undisturbed(machine.device):
            features = _features(config, dataset, machine.device) if _sees(names, dataset) else Raw(dataset.shape)
            return Evaluator(names, features, samples=config.evaluation.samples, modes=_modes(names, dataset, features))
    except EvaluationError as error:
        raise ConfigError(f"evaluation: {error}.") from error


def evaluation_of(
    config: Config,
    machine: Machine,
    dataset: Dataset,
    reals: Resident | Streamed,
    processes: Processes,
    evaluator: Evaluator | None,
) -> tuple[Evaluation | None, Mapping[str, Measure]]:
    """Make the callback that evaluates a run, with the real set already seen where it writes, and say what its figures are.

    Moves no random stream.

    Raises:
        ConfigError: A measure cannot be had with these data.
    """
    if evaluator is None:
        return None, {}
    asked = config.evaluation
    try:
        with undisturbed(machine.device):
            if processes.writes:
                workers = reals.workers if isinstance(reals, Streamed) else 0
                batches = real_batches(reals.data, machine.device, machine.dtype, workers=workers)
                n = len(reals.data)  # type: ignore[arg-type]  # a map-style dataset may have no length; those of a feed do
                folder = default_folder().with_name("statistics")
                evaluator.see_reals(batches, n, folder=folder, identity=_computed(identity_of(config, dataset, reals), machine))
    except EvaluationError as error:
        raise ConfigError(f"evaluation: {error}.") from error
    if processes.count == 1:
        return Evaluation(config.evaluate_every, evaluator, samples=asked.samples, of=asked.of), evaluator.keys
    shared = SharedEvaluation(config.evaluate_every, evaluator, samples=asked.samples, of=asked.of, processes=processes)
    return shared, evaluator.keys


def _computed(identity: str, machine: Machine) -> str:
    """Tell data that are known by the arithmetic too: TF32 rounds features of real images as well."""
    return identity and f"{identity} {machine.device.type} {machine.precision}"


def _sees(names: tuple[str, ...], dataset: Any) -> bool:
    """Return whether a measure looks through features."""
    by_classes = "modes" in names and isinstance(dataset, StackedMNIST)
    return by_classes or any(MEASURES[name].in_features for name in names)


def _features_asked(config: Config, shape: tuple[int, ...]) -> str:
    asked = config.evaluation.features
    return asked if asked != "auto" else "classifier" if len(shape) == 3 else "raw"


def _path_of(asked: str, config: Config, dataset: Any) -> Path | None:
    if asked in ("raw", "inception"):
        return None
    if asked != "classifier":
        return Path(asked).expanduser()
    return classifier_file({"name": "mnist"} if isinstance(dataset, StackedMNIST) else config.dataset)


def _features(config: Config, dataset: Any, device: torch.device) -> Features:
    asked = _features_asked(config, dataset.shape)
    path = _path_of(asked, config, dataset)
    if path is None:
        return Raw(dataset.shape) if asked == "raw" else Inception(device)
    if asked != "classifier":
        return Exported(path, dataset.shape, device)
    classifier = Classifier.load(path, device)
    side, own = dataset.shape[-1], classifier.origin.shape[-1]
    if side != own:
        log.warning(
            "evaluation.features=classifier was trained at %d×%d, and these images of %d×%d are scaled for it, so figures "
            "compare with those of the same size only: to train it at this one, ganexp features %s "
            "dataset.image_size=%d.",
            own,
            own,
            side,
            side,
            path.stem.partition("-")[0],
            side,
        )
    if isinstance(dataset, StackedMNIST):
        return PerChannel(classifier)
    classes = getattr(dataset, "classes", 0)
    if classes and classes != classifier.classes:
        raise EvaluationError(
            f"{path} is of {classifier.classes} classes, but dataset={name_of(config.dataset)} has {classes}: train it anew by "
            f"ganexp features {name_of(config.dataset)} and the settings of the run's dataset"
        )
    return classifier


def _knows_modes(dataset: Any) -> bool:
    return isinstance(dataset, StackedMNIST) or (hasattr(dataset, "centers") and hasattr(dataset, "std"))


def _modes(names: tuple[str, ...], dataset: Any, features: Features) -> Modes | None:
    if "modes" not in names:
        return None
    if not isinstance(dataset, StackedMNIST):
        return Gaussians(dataset.centers, dataset.std)
    if features.classes != dataset.classes:
        raise EvaluationError(
            f"modes: the {dataset.classes} modes of stacked_mnist need features with as many classes, and {features.name} have "
            f"{features.classes}: choose evaluation.features=classifier"
        )
    return Classes(features.classes, f"{features.name} {features.checksum}")


def identity_of(config: Config, dataset: Any, reals: Resident | Streamed) -> str:
    """Return what tells these data, as they were prepared, from any other; empty where that is not known."""
    data = reals.data
    digest = reals.digest or (of_data(data) if isinstance(data, torch.Tensor) else "")
    prepared = {name: value for name, value in arguments(config.dataset).items() if name not in ("root", "path")}
    said = [digest, type(dataset).__qualname__, dataset.shape, sorted(prepared.items()), str(reals.dtype)]
    return json.dumps(said) if digest else ""
