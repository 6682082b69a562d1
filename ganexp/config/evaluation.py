"""The evaluation of a configured run: its measures, features and real data."""

import difflib
import itertools
import json
import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.batch import Batch
from ganexp.config.choices import Choice, name_of, settings_of
from ganexp.config.defaults import defaults
from ganexp.config.schema import AUTO, Config, Node, files_among, unknown_feature
from ganexp.data import Dataset, ImageFolder, Resident, Streamed, default_folder, load_cached
from ganexp.data.cache import VERSION
from ganexp.data.digest import of_data, of_number
from ganexp.distributed.processes import Processes
from ganexp.evaluation import Classifier, Evaluator, Features, Measure, PerChannel, Raw
from ganexp.evaluation.classifier import KnowsNothing, stored, train_if_missing
from ganexp.evaluation.evaluator import labelled, real_batches
from ganexp.evaluation.features import PUBLISHED, FeatureSource, feature_source, needed
from ganexp.facts import Facts, UserError
from ganexp.instruments.scalar import Scalar
from ganexp.printable import one_line
from ganexp.streams import undisturbed
from ganexp.training import Evaluation
from ganexp.training.execution import Machine

log = logging.getLogger(__name__)
WHICH = ("path", "dataset", "split", "subset", "revision", "image_column", "label_column", "label")
"""Keys of a dataset that say which images and which labels it reads."""


def classifier_file(node: Node) -> Path:
    """Return the file of a dataset's classifier, beside the decoded sets: one for each choice of `WHICH`."""
    node = inner_of(node)
    given = {key: node[key] for key in WHICH if node.get(key) is not None}
    path = given.get("path")
    if path is not None:
        given["path"] = _resolved(path, node) if isinstance(path, str) else [_resolved(one, node) for one in path]
    return stored(default_folder().with_name("features"), name_of(node), json.dumps(given, sort_keys=True) if given else "")


def inner_of(node: Node) -> Node:
    """Return the data set that another one is made of, whose images, and so whose classifier, are the same."""
    inner = node.get("of")
    return inner if isinstance(inner, dict) else node


def _resolved(path: str, node: Node) -> str:
    """Return the resolved path of local data; an address or a repository of the hub is returned unchanged."""
    place = Path(os.path.expanduser(path))
    elsewhere = "://" in path or (name_of(node) == "hub" and not place.exists() and place.suffix != ".tar")
    return path if elsewhere else str(place.resolve())


def _key_of(asked: str) -> str:
    """Return the name of features in the keys of figures; for a file, its name without the suffix."""
    return Path(asked).stem if files_among(asked) else asked


@dataclass(frozen=True)
class Compared:
    """The real samples that generated ones are compared with.

    Args:
        dataset: What they come from.
        data: The samples themselves.
        identity: What distinguishes the samples, as prepared, from any others; empty if that is not known.
    """

    dataset: Dataset
    data: Tensor | MapStyle[Tensor]
    identity: str


def labels_of(dataset: Dataset) -> Tensor:
    """Return the class of each sample, `(N,)`.

    Raises:
        UserError: The labels cannot be read, or there are none.
    """
    try:
        return dataset.labels()
    except (OSError, ValueError) as error:
        raise UserError(f"dataset: {error}.") from error


@dataclass(frozen=True)
class EvaluationPlan:
    """The measures of a run, their features, and the real data that they compare with.

    Args:
        config: The run's configuration.
        dataset: Its data set.
        measures: The measures, by the names that messages use; none if the run is not evaluated.
    """

    config: Config
    dataset: Dataset
    measures: Mapping[str, Measure[Any]]

    @cached_property
    def features(self) -> list[str]:
        """The features that measures look at, each once; raw ones if they look at none."""
        if not any(measure.sees_features(self.dataset.modes) for measure in self.measures.values()):
            return ["raw"]
        asked, auto = self.config.evaluation.features, "classifier" if _has_images(self.dataset) else "raw"
        return [*dict.fromkeys(auto if name == AUTO else name for name in ([asked] if isinstance(asked, str) else asked))]

    @property
    def figures(self) -> dict[str, Scalar]:
        """The figures that it may add to a run's rows, by key; further features repeat the keys with a suffix."""
        return {
            key + suffix: figure
            for measure in self.measures.values()
            for suffix in [
                "",
                *(f"/{_key_of(name)}" for name in self.features[1:] if measure.sees_features(self.dataset.modes)),
            ]
            for key, figure in measure.keys.items()
        }

    @property
    def lacks_classifier(self) -> bool:
        """Whether a classifier has to be trained for the features; True for data that cannot be read."""
        try:
            return "classifier" in self.features and self.dataset.classes > 1 and not self._classified[2].is_file()
        except OSError:
            return True

    @property
    def optional(self) -> list[str]:
        """The measures that `auto` has chosen, and neither `keep_best` nor `sweep.metric` names: they may be left out."""
        needed = [metric for metric in (self.config.keep_best, self.config.sweep.metric) if metric]
        return [
            name
            for name, measure in self.measures.items()
            if name not in self.config.measure and not any(metric.startswith(key) for metric in needed for key in measure.keys)
        ]

    def refuse(self) -> None:
        """Refuse features, measures and real data that do not go together, before any of them is loaded.

        Raises:
            UserError: Features are of images and the data are not, two have one name, a measure is of other features or needs
                more samples, or there are no held-out data.
        """
        asked, data = self.features, f"dataset={name_of(self.config.dataset)}"
        for name, other in itertools.combinations(asked, 2):
            if _key_of(name) == _key_of(other):
                raise UserError(
                    f"evaluation.features={name},{other} would both be logged as {_key_of(name)}: rename one of the files."
                )
        for name in asked:
            if why := self._unsuited(name, data):
                raise UserError(f"evaluation.features={name} {why}.")
        for name, measure in self.measures.items():
            if measure.only_in and not set(asked) & set(measure.only_in):
                needs = f"measure.{name} has no meaning in evaluation.features={','.join(asked)}"
                raise UserError(f"{needs}: choose from {', '.join(measure.only_in)}, or leave the measure out.")
        try:
            if self.config.evaluation.against == "test" and self.dataset.held_out() is None:
                remedy = ", or a dataset.path with folders train and test" if isinstance(self.dataset, ImageFolder) else ""
                raise UserError(
                    f"evaluation.against=test compares with held-out data, and {data} has none: choose "
                    f"evaluation.against=train{remedy}."
                )
        except OSError as error:
            raise UserError(f"dataset: {error}.") from error
        self.refuse_few()

    def _unsuited(self, name: str, data: str) -> str:
        """Return why the features of a name do not suit the data, which are called `data`; empty if they suit them."""
        if name == "raw":
            return ""
        if len(self.dataset.shape) != 3:
            return f"needs images, and {data} has none: choose raw"
        if name == "classifier" and not self.dataset.bounded:
            return f"learns classes from images, and {data} has latents: choose raw, a file, or with a dataset.decode inception"
        if name in ("inception", *PUBLISHED):
            channels = self.dataset.picture_shape[0]
            if not self.dataset.bounded and not self.dataset.pictured_by:
                return (
                    f"sees images, and {data} has latents and no decoder: choose raw, or name a decoder with dataset.decode=…"
                )
            if channels not in (1, 3):
                return f"sees images of 1 or 3 channels, and those of {data} have {channels}: choose raw"
        return ""

    def of_at_most(self, sources: int) -> "EvaluationPlan":
        """Return the plan for as many samples as there are sources, if more are asked for: none is measured twice.

        Raises:
            UserError: These are too few for a measure.
        """
        asked = self.config.evaluation
        if asked.samples <= sources or not self.measures:
            return self
        log.info("evaluation.samples=%s: there are %s sources, so as many are measured.", f"{asked.samples:,}", f"{sources:,}")
        few = asked.model_copy(update={"samples": sources})
        plan = replace(self, config=self.config.model_copy(update={"evaluation": few}))
        plan.refuse_few()
        return plan

    def refuse_few(self) -> None:
        """Refuse fewer generated samples than a measure needs in the smallest of its features, before features are loaded."""
        smallest = Raw((min(self._source(name).size for name in self.features),))
        for name, measure in self.measures.items():
            if name not in self.optional:
                try:
                    measure.refuse(smallest, self.config.evaluation.samples, "generated")
                except UserError as error:
                    raise UserError(f"evaluation: {name}: {error}.") from None

    def missing(self) -> list[str]:
        """Return a sentence for each file or package that is missing on this machine."""
        if not self.measures:
            return []
        sources = {name: self._source(name) for name in self.features}
        missing = [f"evaluation.features={name} {source.missing}." for name, source in sources.items() if source.missing]
        for library in sorted({measure.library for measure in self.measures.values()} - {""}):
            try:
                needed(library)
            except UserError as error:
                missing.append(f"evaluation: {error}.")
        return missing

    def without_effect(self) -> list[str]:
        """Return a sentence for each request that will have no effect."""
        config, said = self.config, []
        asked = [f"evaluation.{key}" for key, value in config.evaluation if value != defaults()["evaluation"][key]]
        asked = ["measure"] * ([*config.measure] != [AUTO]) + asked
        if asked and not config.evaluate_every:
            keys = " and ".join(asked)
            said.append(f"There is no evaluation, so {keys} will have no effect: choose evaluate_every=….")
        best, figures = config.keep_best, self.figures
        if best and best.startswith("eval/") and best not in figures:
            close = difflib.get_close_matches(best, figures, n=1)
            said.append(
                f"keep_best={best} is no figure of this evaluation{f', as {close[0]} is' if close else ''}: there will be no "
                "best checkpoint unless a callback of your own makes it."
            )
        return said

    def evaluator(self, machine: Machine) -> Evaluator | None:
        """Make the evaluator, which has not seen the real data yet; None without measures.

        The classifier of a data set is trained if it is missing. No random stream is advanced.

        Raises:
            UserError: A measure or features cannot be obtained.
        """
        if not self.measures:
            return None
        asked = self.config.evaluation
        against = "" if asked.against == "train" else "held-out data"
        try:
            with undisturbed(machine.device):
                return Evaluator(
                    self.measures,
                    self._loaded(machine.device),
                    samples=asked.samples,
                    modes=self.dataset.modes,
                    against=against,
                    optional=self.optional,
                )
        except UserError as error:
            raise UserError(f"evaluation: {str(error).rstrip('.')}.") from error

    def callback(self, machine: Machine, reals: Resident | Streamed, processes: Processes, evaluator: Evaluator) -> Evaluation:
        """Make the callback that evaluates a run. In the process that writes, its evaluator sees the real set first.

        No random stream is advanced.

        Raises:
            UserError: A measure cannot be computed on these data, or their labels cannot be read.
        """
        asked = self.config.evaluation
        try:
            with undisturbed(machine.device):
                if processes.is_main:
                    compared = self.compared_with(reals)
                    labels = labels_of(compared.dataset) if evaluator.looks_at_labels else None

                    def batches() -> Iterable[Batch | Tensor]:
                        values = real_batches(
                            compared.data,
                            machine.device,
                            machine.dtype,
                            workers=reals.workers,
                            derive=compared.dataset.pictured,
                        )
                        return values if labels is None else labelled(values, labels)

                    # TF32 rounds features of real images as well.
                    told = [machine.device.type, machine.precision, *([] if labels is None else [of_data(labels)])]
                    identity = compared.identity and " ".join([compared.identity, *told])
                    n = len(compared.data)  # type: ignore[arg-type]  # a map-style dataset may have no length; those of a feed do
                    try:
                        evaluator.see_reals(batches, n, folder=default_folder().with_name("statistics"), identity=identity)
                    except (UserError, torch.OutOfMemoryError, MemoryError) as error:
                        raise UserError(f"evaluation: {one_line(error)}.") from error
        except OSError as error:
            raise UserError(f"dataset: {error}.") from error
        of: Any = {"samples": asked.samples, "of": asked.of, "standing": asked.standing}
        return Evaluation(self.config.evaluate_every, evaluator, **of, processes=processes, pictures=self.dataset.pictures)

    def compared_with(self, reals: Resident | Streamed) -> Compared:
        """Return the data that samples are compared with: the training data, or the held-out data.

        Raises:
            OSError: The held-out data cannot be obtained.
        """
        dataset, data, digest = self.dataset, reals.data, reals.digest
        if self.config.evaluation.against == "test":
            held_out = dataset.held_out()
            assert held_out is not None
            dataset = held_out
            data, digest = load_cached(dataset, default_folder(), place="auto"), dataset.digest()
        if digest in ("", of_number(len(data))):  # type: ignore[arg-type]
            digest = of_data(data) if isinstance(data, Tensor) else ""
        settings = settings_of(self.config.dataset)
        prepared = {name: value for name, value in settings.items() if name not in ("root", "path")}
        said = [VERSION, digest, type(dataset).__qualname__, dataset.shape, sorted(prepared.items()), str(reals.dtype)]
        said += [dataset.pictured_by] * bool(dataset.pictured_by)
        return Compared(dataset, data, json.dumps(said) if digest else "")

    @property
    def _classified(self) -> tuple[str, Dataset, Path]:
        """What the classifier is of, by name and as a data set, and its file; for a stack, that of its channels."""
        if channels := self.dataset.stack_of:
            name = type(channels).__name__.lower()
            return name, channels, classifier_file({"name": name})
        node = self.config.dataset
        return name_of(inner_of(node)), self.dataset, classifier_file(node)

    def classifier(self, device: torch.device) -> Classifier:
        """Load the classifier of the data set, which is trained if it is missing. No random stream is advanced.

        Raises:
            UserError: It cannot be obtained, or knows no more than chance explains.
        """
        if self.dataset.stack_of:
            raise UserError("it looks at each channel by itself")
        with undisturbed(device):
            return self._classifier(device)

    def _loaded(self, device: torch.device) -> dict[str, Features]:
        """Load the features by name; raw ones replace a classifier of `auto` that is no better than chance."""
        try:
            return {_key_of(name): self._source(name).load(device) for name in self.features}
        except KnowsNothing as error:
            if self.config.evaluation.features != AUTO:
                raise UserError(f"{error}: choose evaluation.features=inception, raw or a file") from error
            log.warning("Samples are compared in evaluation.features=raw: %s.", error)
            return {"raw": Raw(self.dataset.picture_shape)}

    def _source(self, name: str) -> FeatureSource:
        """Find the features of a name, as `feature_source` does, or the classifier of the data set."""
        shape = self.dataset.picture_shape
        if name != "classifier":
            return feature_source(name, shape, self.config.evaluation.feature_weights)
        size = min(Classifier.size, math.prod(shape))  # auto takes pixels where it knows nothing
        path, lacks = self._classified[2], ""
        if self.config.evaluation.features != AUTO and not path.is_file() and not self.lacks_classifier:
            lacks = f"needs the file {path}, which does not exist: a classifier needs images of two classes or more, so choose "
            lacks += "inception, raw or a file"

        def load(device: torch.device) -> Features:
            classifier = self._classifier(device)
            return PerChannel(classifier) if self.dataset.stack_of else classifier

        return FeatureSource(load, size, lacks)

    def _classifier(self, device: torch.device) -> Classifier:
        dataset, (name, classified, path) = self.dataset, self._classified
        train_if_missing(path, classified, name, device)
        classifier = Classifier.load(path, device)
        if not dataset.stack_of and dataset.classes not in (0, classifier.classes):
            chosen = name_of(self.config.dataset)
            raise UserError(
                f"{path} is of {classifier.classes} classes, but dataset={chosen} has {dataset.classes}: train it anew by "
                f"ganexp features {chosen} and the settings of the run's dataset"
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


def _has_images(dataset: Dataset) -> bool:
    return len(dataset.shape) == 3 and dataset.bounded


def plan_evaluation(offered: Sequence[Choice], config: Config, run: Facts) -> EvaluationPlan:
    """Make the measures of a run, in the order of their list, and ask whether they fit the run, its features and its data.

    Args:
        offered: The measures of the list, and those that `auto` may take.
        config: The run's configuration.
        run: The facts that the measures are told.

    Raises:
        UserError: There is no measure, one does not fit, two have a key in common, or features or held-out data do not fit.
    """
    if unknown := unknown_feature(config.evaluation.features):
        raise UserError(unknown)
    plan = EvaluationPlan(config, run.dataset, _measures(offered, config, run) if config.evaluate_every else {})
    if plan.measures:
        plan.refuse()
    return plan


def _measures(offered: Sequence[Choice], config: Config, run: Facts) -> dict[str, Measure[Any]]:
    choices = {one.key.partition(".")[2]: one for one in offered}
    made = {name: choice.make() for name, choice in choices.items()}
    fitting = sorted(
        (one for one in made if one not in config.measure and made[one].suits(run)), key=lambda one: made[one].rank
    )
    names = [name for one in config.measure for name in (fitting if one == AUTO else [one])]
    if not names:
        raise UserError("measure=[] leaves an evaluation nothing to measure: choose measure=auto or evaluate_every=0.")
    of: dict[str, str] = {}
    for name in names:
        choices[name].ask(made[name].check, run)
        for key in made[name].keys:
            if of.setdefault(key, name) != name:
                raise UserError(f"measure.{name} and measure.{of[key]} are both logged as {key}: leave one of them out.")
    return {name: made[name] for name in names}
