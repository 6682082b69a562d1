"""The evaluation of a configured run: its measures in its features, and the real data that samples are compared with."""

import difflib
import itertools
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.batch import Batch
from ganexp.config.choices import Choice, name_of, settings_of
from ganexp.config.defaults import defaults
from ganexp.config.features import feature_names, lacks_classifier, load_features, name_in_keys, source_of, unsuited
from ganexp.config.schema import AUTO, Config, unknown_feature
from ganexp.data import Dataset, ImageFolder, Resident, Streamed, default_folder, load_cached
from ganexp.data.cache import VERSION
from ganexp.data.digest import of_data, of_number
from ganexp.evaluation import Evaluator, Measure, Raw
from ganexp.evaluation.evaluator import labelled, real_batches
from ganexp.evaluation.features import needed
from ganexp.facts import Facts, UserError
from ganexp.instruments.scalar import Scalar
from ganexp.printable import one_line
from ganexp.streams import undisturbed
from ganexp.training.execution import Machine

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """How the samples of a run are compared with real ones, before features or data are loaded.

    Args:
        config: The run's configuration.
        dataset: Its data set.
        measures: The measures, by the names that messages use; at least one.
    """

    config: Config
    dataset: Dataset
    measures: Mapping[str, Measure[Any]]

    @cached_property
    def features(self) -> list[str]:
        """The features that measures look at; raw ones if they look at none."""
        looks = any(measure.sees_features(self.dataset.modes) for measure in self.measures.values())
        return feature_names(self.config, self.dataset) if looks else ["raw"]

    @property
    def figures(self) -> dict[str, Scalar]:
        """The figures that it may add to a run's rows, by key; further features repeat the keys with a suffix."""
        further = [f"/{name_in_keys(name)}" for name in self.features[1:]]
        return {
            key + suffix: figure
            for measure in self.measures.values()
            for suffix in ["", *(further if measure.sees_features(self.dataset.modes) else [])]
            for key, figure in measure.keys.items()
        }

    @property
    def lacks_classifier(self) -> bool:
        """Whether a classifier has to be trained for its features; True for data that cannot be read."""
        return "classifier" in self.features and lacks_classifier(self.dataset, self.config.dataset)

    @property
    def optional(self) -> list[str]:
        """The measures that `auto` has chosen, and neither `keep_best` nor `sweep.metric` names: they may be left out."""
        metrics = [metric for metric in (self.config.keep_best, self.config.sweep.metric) if metric]
        return [
            name
            for name, measure in self.measures.items()
            if name not in self.config.measure and not any(metric.startswith(key) for metric in metrics for key in measure.keys)
        ]

    def refuse(self) -> None:
        """Refuse features, measures and real data that do not go together, before any of them is loaded."""
        asked, data = self.features, f"dataset={name_of(self.config.dataset)}"
        for name, other in itertools.combinations(asked, 2):
            if name_in_keys(name) == name_in_keys(other):
                raise UserError(
                    f"evaluation.features={name},{other} would both be logged as {name_in_keys(name)}: rename one of the files."
                )
        for name in asked:
            if why := unsuited(name, self.dataset, data):
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
        self._refuse_few()

    def _refuse_few(self) -> None:
        """Refuse fewer generated samples than a measure needs in the smallest of its features."""
        smallest = Raw((min(source_of(name, self.config, self.dataset).size for name in self.features),))
        for name, measure in self.measures.items():
            if name not in self.optional:
                try:
                    measure.refuse(smallest, self.config.evaluation.samples, "generated")
                except UserError as error:
                    raise UserError(f"evaluation: {name}: {error}.") from None

    def of_at_most(self, sources: int) -> "Comparison":
        """Return the same for as many samples as there are sources, if more are asked for: none is measured twice.

        Raises:
            UserError: These are too few for a measure.
        """
        asked = self.config.evaluation
        if asked.samples <= sources:
            return self
        log.info("evaluation.samples=%s: there are %s sources, so as many are measured.", f"{asked.samples:,}", f"{sources:,}")
        few = asked.model_copy(update={"samples": sources})
        limited = replace(self, config=self.config.model_copy(update={"evaluation": few}))
        limited._refuse_few()
        return limited

    def missing(self) -> list[str]:
        """Return a sentence for each file or package that is missing on this machine."""
        sources = {name: source_of(name, self.config, self.dataset) for name in self.features}
        missing = [f"evaluation.features={name} {source.missing}." for name, source in sources.items() if source.missing]
        for library in sorted({measure.library for measure in self.measures.values()} - {""}):
            try:
                needed(library)
            except UserError as error:
                missing.append(f"evaluation: {error}.")
        return missing

    def evaluator(self, machine: Machine) -> Evaluator:
        """Make the evaluator, which has not seen the real data yet; a classifier that is missing is trained.

        No random stream is advanced.

        Raises:
            UserError: A measure or features cannot be obtained.
        """
        asked = self.config.evaluation
        try:
            with undisturbed(machine.device):
                return Evaluator(
                    self.measures,
                    load_features(self.features, self.config, self.dataset, machine.device),
                    samples=asked.samples,
                    modes=self.dataset.modes,
                    against="" if asked.against == "train" else "held-out data",
                    optional=self.optional,
                )
        except UserError as error:
            raise UserError(f"evaluation: {str(error).rstrip('.')}.") from error

    def see_reals(self, evaluator: Evaluator, reals: Resident | Streamed, machine: Machine) -> str:
        """Give the evaluator the real data: those of training, or the held-out ones. No random stream is advanced.

        Returns:
            What distinguishes these data, as prepared, from any others; empty if that is not known.

        Raises:
            UserError: A measure cannot be computed on these data, or they or their labels cannot be read.
        """
        try:
            with undisturbed(machine.device):
                dataset, data, identity = self._compared_with(reals)
                labels = labels_of(dataset) if evaluator.looks_at_labels else None
                # TF32 rounds features of real images as well.
                how = [machine.device.type, machine.precision, *([] if labels is None else [of_data(labels)])]

                def batches() -> Iterable[Batch | Tensor]:
                    where: Any = {"workers": reals.workers, "derive": dataset.pictured}
                    values = real_batches(data, machine.device, machine.dtype, **where)
                    return values if labels is None else labelled(values, labels)

                try:
                    evaluator.see_reals(
                        batches,
                        len(data),  # type: ignore[arg-type]  # a map-style dataset may have no length; those of a feed do
                        folder=default_folder().with_name("statistics"),
                        identity=identity and " ".join([identity, *how]),
                    )
                except (UserError, torch.OutOfMemoryError, MemoryError) as error:
                    raise UserError(f"evaluation: {one_line(error)}.") from error
                return identity
        except OSError as error:
            raise UserError(f"dataset: {error}.") from error

    def _compared_with(self, reals: Resident | Streamed) -> tuple[Dataset, Tensor | MapStyle[Tensor], str]:
        """Return the data set that samples are compared with, what it has loaded, and its identity as in `see_reals`."""
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
        described = [VERSION, digest, type(dataset).__qualname__, dataset.shape, sorted(prepared.items()), str(reals.dtype)]
        described += [dataset.pictured_by] * bool(dataset.pictured_by)
        return dataset, data, json.dumps(described) if digest else ""


def labels_of(dataset: Dataset) -> Tensor:
    """Return the class of each sample, `(N,)`.

    Raises:
        UserError: The labels cannot be read, or there are none.
    """
    try:
        return dataset.labels()
    except (OSError, ValueError) as error:
        raise UserError(f"dataset: {error}.") from error


def comparison_of(offered: Sequence[Choice], config: Config, run: Facts) -> Comparison:
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
    choices = {choice.key.partition(".")[2]: choice for choice in offered}
    measures: dict[str, Measure[Any]] = {name: choice.make() for name, choice in choices.items()}
    fitting = [name for name, measure in measures.items() if name not in config.measure and measure.suits(run)]
    fitting.sort(key=lambda name: measures[name].rank)
    names = [name for listed in config.measure for name in (fitting if listed == AUTO else [listed])]
    if not names:
        raise UserError("measure=[] leaves an evaluation nothing to measure: choose measure=auto or evaluate_every=0.")
    logged_by: dict[str, str] = {}
    for name in names:
        choices[name].ask(measures[name].check, run)
        for key in measures[name].keys:
            if logged_by.setdefault(key, name) != name:
                raise UserError(f"measure.{name} and measure.{logged_by[key]} are both logged as {key}: leave one of them out.")
    comparison = Comparison(config, run.dataset, {name: measures[name] for name in names})
    comparison.refuse()
    return comparison


def without_effect(config: Config, figures: Mapping[str, Scalar]) -> list[str]:
    """Return a sentence for each key about evaluations that has no effect in a run with these figures."""
    sentences = []
    typed = [f"evaluation.{key}" for key, value in config.evaluation if value != defaults()["evaluation"][key]]
    typed = ["measure"] * ([*config.measure] != [AUTO]) + typed
    if typed and not config.evaluate_every:
        sentences.append(f"There is no evaluation, so {' and '.join(typed)} will have no effect: choose evaluate_every=….")
    best = config.keep_best
    if best and best.startswith("eval/") and best not in figures:
        close = difflib.get_close_matches(best, figures, n=1)
        sentences.append(
            f"keep_best={best} is no figure of this evaluation{f', as {close[0]} is' if close else ''}: there will be no "
            "best checkpoint unless a callback of your own makes it."
        )
    return sentences
