"""The features in which a run's samples are compared: which network, where its weights are, and what is missing."""

import json
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path

import torch

from ganexp.config.choices import name_of
from ganexp.config.schema import AUTO, Config, Node
from ganexp.data import Dataset, default_folder
from ganexp.evaluation import Classifier, Features, PerChannel, Raw
from ganexp.evaluation.classifier import KnowsNothing, stored, train_if_missing
from ganexp.evaluation.features import PUBLISHED, FeatureSource, feature_source
from ganexp.facts import UserError
from ganexp.streams import undisturbed

log = logging.getLogger(__name__)
WHICH = ("path", "dataset", "split", "subset", "revision", "image_column", "label_column", "label")
"""Keys of a dataset that say which images and which labels it reads."""


def feature_names(config: Config, dataset: Dataset) -> list[str]:
    """Return the features that a run asks for, each once; `auto` stands for a classifier of images, and for raw points."""
    asked, auto = config.evaluation.features, "classifier" if len(dataset.shape) == 3 and dataset.bounded else "raw"
    return [*dict.fromkeys(auto if name == AUTO else name for name in ([asked] if isinstance(asked, str) else asked))]


def unsuited(name: str, dataset: Dataset, data: str) -> str:
    """Return why the features of a network do not suit a data set, which is called `data`; empty if they suit it."""
    if len(dataset.shape) != 3:
        return f"needs images, and {data} has none: choose raw"
    if name == "classifier" and not dataset.bounded:
        return f"learns classes from images, and {data} has latents: choose raw, a file, or with a dataset.decode inception"
    if name in ("inception", *PUBLISHED):
        channels = dataset.picture_shape[0]
        if not dataset.bounded and not dataset.pictured_by:
            return f"sees images, and {data} has latents and no decoder: choose raw, or name a decoder with dataset.decode=…"
        if channels not in (1, 3):
            return f"sees images of 1 or 3 channels, and those of {data} have {channels}: choose raw"
    return ""


def source_of(name: str, config: Config, dataset: Dataset) -> FeatureSource:
    """Find the features of a name, as `feature_source` does, or the classifier of the data set; refuse unsuitable ones."""
    if name != "raw" and (why := unsuited(name, dataset, f"dataset={name_of(config.dataset)}")):
        raise UserError(f"evaluation.features={name} {why}.")
    if name == "classifier":
        return _source_of_classifier(config, dataset)
    return feature_source(name, dataset.picture_shape, config.evaluation.feature_weights)


def _source_of_classifier(config: Config, dataset: Dataset) -> FeatureSource:
    path, missing = classifier_file(_classified(dataset, config.dataset)[1]), ""
    if config.evaluation.features != AUTO and not path.is_file() and not _is_trainable(dataset):
        missing = f"needs the file {path}, which does not exist: a classifier needs images of two classes or more, so choose "
        missing += "inception, raw or a file"

    def load(device: torch.device) -> Features:
        classifier = _classifier(dataset, config.dataset, device)
        return PerChannel(classifier) if dataset.stack_of else classifier

    size = min(Classifier.size, math.prod(dataset.picture_shape))  # auto takes pixels where the classifier knows nothing
    return FeatureSource(load, size, missing)


def load_features(
    sources: Mapping[str, FeatureSource], config: Config, dataset: Dataset, device: torch.device
) -> dict[str, Features]:
    """Load features by their names in keys; raw ones replace a classifier of `auto` that is no better than chance."""
    try:
        return {Path(name).stem: source.load(device) for name, source in sources.items()}
    except KnowsNothing as error:
        if config.evaluation.features != AUTO:
            raise UserError(f"{error}: choose evaluation.features=inception, raw or a file") from error
        log.warning("Samples are compared in evaluation.features=raw: %s.", error)
        return {"raw": Raw(dataset.picture_shape)}


def classifier_of(dataset: Dataset, node: Node, device: torch.device) -> Classifier:
    """Load the classifier of a data set, which is trained if it is missing. No random stream is advanced."""
    if dataset.stack_of:
        raise UserError("it looks at each channel by itself")
    with undisturbed(device):
        return _classifier(dataset, node, device)


def lacks_classifier(dataset: Dataset, node: Node) -> bool:
    """Return whether a classifier has to be trained for its features; True for data that cannot be read."""
    return _is_trainable(dataset) and not classifier_file(_classified(dataset, node)[1]).is_file()


def classifier_file(node: Node) -> Path:
    """Return the file of a dataset's classifier, beside the decoded sets: one for each choice of `WHICH`."""
    node = _inner(node)
    given = {key: node[key] for key in WHICH if node.get(key) is not None}
    path = given.get("path")
    if path is not None:
        given["path"] = _resolved(path, node) if isinstance(path, str) else [_resolved(part, node) for part in path]
    return stored(default_folder().with_name("features"), name_of(node), json.dumps(given, sort_keys=True) if given else "")


def _inner(node: Node) -> Node:
    """Return the data set that another one is made of, whose images, and so whose classifier, are the same."""
    inner = node.get("of")
    return inner if isinstance(inner, dict) else node


def _resolved(path: str, node: Node) -> str:
    """Return the resolved path of local data; an address or a repository of the hub is returned unchanged."""
    place = Path(os.path.expanduser(path))
    elsewhere = "://" in path or (name_of(node) == "hub" and not place.exists() and place.suffix != ".tar")
    return path if elsewhere else str(place.resolve())


def _classified(dataset: Dataset, node: Node) -> tuple[Dataset, Node]:
    """Return the data set whose classes the classifier tells apart, and its choice; for a stack, those of its channels."""
    channels = dataset.stack_of
    return (channels, {"name": type(channels).__name__.lower()}) if channels else (dataset, node)


def _is_trainable(dataset: Dataset) -> bool:
    """Return whether there are classes to learn; True for data that cannot be read, which reading them will report."""
    try:
        return dataset.classes > 1
    except OSError:
        return True


def _classifier(dataset: Dataset, node: Node, device: torch.device) -> Classifier:
    classified, chosen = _classified(dataset, node)
    name, path = name_of(_inner(chosen)), classifier_file(chosen)
    train_if_missing(path, classified, name, device)
    classifier = Classifier.load(path, device)
    if not dataset.stack_of and dataset.classes not in (0, classifier.classes):
        raise UserError(
            f"{path} is of {classifier.classes} classes, but dataset={name_of(node)} has {dataset.classes}: train it anew by "
            f"ganexp features {name_of(node)} and the settings of the run's dataset"
        )
    if classifier.ignorance:
        raise KnowsNothing(f"the classifier of {name} {classifier.ignorance}")
    side, own = dataset.shape[-1], classifier.record.shape[-1]
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
    return classifier
