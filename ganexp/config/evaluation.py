"""The evaluation of a configured run: its measures in its features, and the real data that samples are compared with."""

import difflib
import itertools
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset as MapStyle

from ganexp.config.choices import Choice, name_of, settings_of
from ganexp.config.defaults import defaults
from ganexp.config.features import feature_names, lacks_classifier, load_features, source_of
from ganexp.config.schema import AUTO, Config, unknown_feature
from ganexp.data import Dataset, ImageFolder, Resident, Streamed, default_folder, load_cached
from ganexp.data.cache import VERSION
from ganexp.data.digest import of_data, of_number
from ganexp.evaluation import Evaluator, Measure, Raw
from ganexp.evaluation.evaluator import labelled, real_batches
from ganexp.evaluation.features import FeatureSource, needed
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
        optional: Those that `auto` has chosen, and neither `keep_best` nor `sweep.metric` names: they may be left out.
    """

    config: Config
    dataset: Dataset
    measures: Mapping[str, Measure[Any]]
    optional: Collection[str]

    @cached_property
    def features(self) -> dict[str, FeatureSource]:
        """Where the features come from that measures look at, by name; raw ones if they look at none."""
        looks = any(measure.sees_features(self.dataset.modes) for measure in self.measures.values())
        names = feature_names(self.config, self.dataset) if looks else ["raw"]
        return {name: source_of(name, self.config, self.dataset) for name in names}

    @property
    def figures(self) -> dict[str, Scalar]:
        """The figures that it may add to a run's rows, by key; further features repeat the keys with a suffix."""
        _, *further = [f"/{Path(name).stem}" for name in self.features]
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

    def refuse(self) -> None:
        """Refuse features, measures and real data that do not go together, before any of them is loaded."""
        for name, other in itertools.combinations(self.features, 2):
            if Path(name).stem == Path(other).stem:
                raise UserError(
                    f"evaluation.features={name},{other} would both be logged as {Path(name).stem}: rename one of the files."
                )
        for name, measure in self.measures.items():
            if measure.only_in and self.features.keys().isdisjoint(measure.only_in):
                needs = f"measure.{name} has no meaning in evaluation.features={','.join(self.features)}"
                raise UserError(f"{needs}: choose from {', '.join(measure.only_in)}, or leave the measure out.")
        try:
            if self.config.evaluation.against == "test" and self.dataset.held_out() is None:
                remedy = ", or a dataset.path with folders train and test" if isinstance(self.dataset, ImageFolder) else ""
                data = f"dataset={name_of(self.config.dataset)}"
                raise UserError(
                    f"evaluation.against=test compares with held-out data, and {data} has none: choose "
                    f"evaluation.against=train{remedy}."
                )
        except OSError as error:
            raise UserError(f"dataset: {error}.") from error
        self._refuse_few()

    def _refuse_few(self) -> None:
        """Refuse fewer generated samples than a measure needs in the smallest of its features."""
        smallest = Raw((min(source.size for source in self.features.values()),))
        for name in [name for name in self.measures if name not in self.optional]:
            try:
                self.measures[name].refuse(smallest, self.config.evaluation.samples, "generated")
            except UserError as error:
                raise UserError(f"evaluation: {name}: {error}.") from None

    def of_at_most(self, sources: int) -> "Comparison":
        """Return the same for as many samples as there are sources, if more are asked for: none is measured twice."""
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
        missing = [f"evaluation.features={name} {source.missing}." for name, source in self.features.items() if source.missing]
        for library in sorted({measure.library for measure in self.measures.values()} - {""}):
            try:
                needed(library)
            except UserError as error:
                missing.append(f"evaluation: {error}.")
        return missing

    def evaluator(self, machine: Machine) -> Evaluator:
        """Make the evaluator, which has not seen the real data yet; a classifier that is missing is trained."""
        asked = self.config.evaluation
        against = "" if asked.against == "train" else "held-out data"
        try:
            with undisturbed(machine.device):
                features = load_features(self.features, self.config, self.dataset, machine.device)
                modes, optional = self.dataset.modes, self.optional
                return Evaluator(
                    self.measures, features, samples=asked.samples, modes=modes, against=against, optional=optional
                )
        except UserError as error:
            raise UserError(f"evaluation: {str(error).rstrip('.')}.") from error

    def see_reals(self, evaluator: Evaluator, reals: Resident | Streamed, machine: Machine) -> str:
        """Give the evaluator the real data: those of training, or the held-out ones.

        Return what distinguishes these data, as prepared, from any others; empty if that is not known.
        """
        try:
            with undisturbed(machine.device):
                dataset, data, identity = self._compared_with(reals)
                labels = labels_of(dataset) if evaluator.looks_at_labels else None
                # TF32 rounds features of real images as well.
                how = [machine.device.type, machine.precision, *([] if labels is None else [of_data(labels)])]
                where: Any = {"workers": reals.workers, "derive": dataset.pictured}
                batches = partial(real_batches, data, machine.device, machine.dtype, **where)
                try:
                    evaluator.see_reals(
                        batches if labels is None else lambda: labelled(batches(), labels),
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
    """Return the class of each sample, `(N,)`; refuse data without labels, or whose labels cannot be read."""
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
    """
    if unknown := unknown_feature(config.evaluation.features):
        raise UserError(unknown)
    choices = {choice.key.partition(".")[2]: choice for choice in offered}
    offers: dict[str, Measure[Any]] = {name: choice.make() for name, choice in choices.items()}
    fitting = [name for name, measure in offers.items() if name not in config.measure and measure.suits(run)]
    fitting.sort(key=lambda name: offers[name].rank)
    names = [name for listed in config.measure for name in (fitting if listed == AUTO else [listed])]
    if not names:
        raise UserError("measure=[] leaves an evaluation nothing to measure: choose measure=auto or evaluate_every=0.")
    logged_by: dict[str, str] = {}
    for name in names:
        choices[name].ask(offers[name].check, run)
        for key in offers[name].keys:
            if logged_by.setdefault(key, name) != name:
                raise UserError(f"measure.{name} and measure.{logged_by[key]} are both logged as {key}: leave one of them out.")
    metrics = tuple(metric for metric in (config.keep_best, config.sweep.metric) if metric)
    named = {name for key, name in logged_by.items() if any(metric.startswith(key) for metric in metrics)}
    measures = {name: offers[name] for name in names}
    comparison = Comparison(config, run.dataset, measures, [name for name in names if name in fitting and name not in named])
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
