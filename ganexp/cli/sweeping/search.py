"""A search: Optuna chooses the settings of each trial by the outcomes of those before it.

The database of a study may hold anything: a word of a job is a value from the space of this search, or one that was typed.
"""

import itertools
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import isnan
from pathlib import Path
from typing import Any, Literal

import optuna
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep, Transformer
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from hydra.utils import instantiate
from omegaconf import DictConfig
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
)
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.storages._heartbeat import get_heartbeat_thread
from optuna.trial import Trial, TrialState
from sqlalchemy import make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ganexp.facts import UserError
from ganexp.printable import one_line

ATTEMPTS = 50
"""How often a database is opened while others make its tables: each attempt may meet one of some ten of them."""
BEAT_S = 60
"""How often a search writes that its trials are running; those of which none has written for twice as long have failed."""
BOUND = 1e300
"""Bounds of intervals are smaller, so that their difference is finite."""
STORED = (SQLAlchemyError, StorageInternalError)
"""What is raised when a storage that was opened fails."""
WARNINGS = "(?s).*(heartbeat|metric_names|fail_stale_trials)"
"""What Optuna warns of: that heartbeats and names of metrics are experimental, and that its own loop would give the former."""


class Search(Sweeper):
    """Asks an Optuna study for `n_trials` trials, has the launcher run them as jobs, and tells the study what they return.

    A job that returns no number, or NaN, is a failed trial, and so is one whose search was killed. If the study has a name
    and a storage, it keeps its trials there, and a later search of the same name, metric and direction begins with them.

    Args:
        sampler: What proposes settings, one of `optuna.samplers`.
        direction: `minimize` or `maximize`.
        storage: The URL of the database of studies; if None, the study ends with the process.
        study_name: If None, the study is a new one.
        n_trials: How many trials this search adds.
        n_jobs: How many trials are proposed at a time, for a launcher that runs them side by side.
        params: A part of the space, `{key: sweep}`; words of the command line come later, and the later word counts.

    Raises:
        UserError: The storage cannot be used, the study is of another search, or none of its trials has a value.
        ValueError: The space is invalid.
    """

    def __init__(
        self,
        *,
        sampler: optuna.samplers.BaseSampler,
        direction: Literal["minimize", "maximize"],
        storage: str | None,
        study_name: str | None,
        n_trials: int,
        n_jobs: int,
        params: dict[str, str] | None,
    ) -> None:
        optuna.logging.set_verbosity(logging.WARNING)
        warnings.filterwarnings("ignore", WARNINGS)
        self._sampler, self._direction = sampler, direction
        self._storage, self._name = storage, None if study_name is None else str(study_name)
        self._n_trials, self._n_jobs, self._params = n_trials, n_jobs, params or {}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the launcher, as every sweeper does."""
        self._loader: ConfigLoader = hydra_context.config_loader
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self._metric: str = config.sweep.metric

    def sweep(self, arguments: list[str]) -> None:
        """Run the trials, and print the best one of the study."""
        words = [f"{key}={value}" for key, value in self._params.items()] + arguments
        space, fixed = space_of(OverridesParser.create(config_loader=self._loader).parse_overrides(words))
        study = self.study(self._metric)
        for begun in range(0, self._n_trials, self._n_jobs):
            if not self._run(study, min(self._n_jobs, self._n_trials - begun), begun, space, fixed):
                break
        if not study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]):
            raise UserError("no trial of the search has a value; the summary.json and train.log of its jobs say why.")
        print(f"\nBest of the study's {len(study.trials)} trials: {study.best_params}\nBest value: {study.best_value}")

    def study(self, metric: str) -> optuna.Study:
        """Open the study, a new one or that of an earlier search."""
        objective: list[tuple[str, str]] = [(self._direction, metric)]
        with _storage_errors(Exception):  # a database may hold anything
            self._database = _opened(self._storage) if self._storage else None
            study = optuna.create_study(
                sampler=self._sampler,
                direction=self._direction,
                storage=self._database,
                study_name=self._name,
                load_if_exists=True,
            )
            _, directions, names = study.trials, study.directions, study.metric_names
            metrics = names or [metric] * len(directions)
            before = [(direction.name.lower(), name) for direction, name in zip(directions, metrics, strict=True)]
            if before == objective and names is None:
                study.set_metric_names([metric])
            fail_stale_trials(study)
        if before != objective:
            earlier = " and ".join(map(" ".join, before))
            raise UserError(
                f"hydra.sweeper.study_name={self._name} was begun to {earlier}, not to {self._direction} {metric}: ask for the "
                "same again, or give the new search a name of its own."
            )
        return study

    def _run(
        self, study: optuna.Study, count: int, begun: int, space: Mapping[str, BaseDistribution], fixed: Mapping[str, str]
    ) -> bool:
        """Run some trials side by side, and return whether the sampler has more of them."""
        trials: list[Trial] = []
        returned: Sequence[JobReturn] = ()
        more = True
        with ExitStack() as beating:
            try:
                jobs = []
                for _ in range(count):
                    with _storage_errors():
                        waiting = {one.number for one in study.get_trials(deepcopy=False, states=[TrialState.WAITING])}
                        trial = study.ask()
                        trials.append(trial)
                        if self._database:
                            beat = get_heartbeat_thread(trial._trial_id, self._database)
                            beat.start()
                            beating.callback(beat.join)
                        waited = trial.number in waiting
                        suggested = {key: _suggested(trial, key, distribution, waited) for key, distribution in space.items()}
                    jobs.append([f"{key}={value}" for key, value in {**suggested, **fixed}.items()])
                returned = self._launcher.launch(jobs, initial_job_idx=begun)
            finally:  # a stopped search leaves no trial that seems to be running
                values = [one.return_value if one.status is JobStatus.COMPLETED else None for one in returned]
                for trial, value in zip(trials, [*values, *[None] * len(trials)], strict=False):
                    lost = value is None or isnan(value)
                    try:
                        with _storage_errors():
                            study.tell(trial, None if lost else value, TrialState.FAIL if lost else None, skip_if_finished=True)
                    except RuntimeError as error:  # a sampler that has tried everything stops the loop, which is Optuna's own
                        if "Study.stop" not in str(error):
                            raise
                        more = False
        return more


def study_name(sweeper: DictConfig, overrides: Sequence[Override], metric: str) -> str:
    """Return the name of the study of a search, which is in its storage from now on; refuse a search that cannot begin."""
    try:
        space, _ = space_of(overrides)
    except ValueError as error:
        raise UserError(f"the search cannot begin: {str(error).rstrip('.')}.") from None
    try:
        search = instantiate(sweeper)
        optuna.create_study(sampler=instantiate(sweeper.sampler)).ask(space)
    except Exception as error:  # whatever a sampler raises
        reason = one_line(error.__cause__ or error).rstrip(".")
        raise UserError(f"hydra.sweeper.sampler cannot be used: {reason}.") from None
    study: optuna.Study = search.study(metric)
    _refuse_other_space(study, space)
    return study.study_name


@contextmanager
def _storage_errors(kinds: type[Exception] | tuple[type[Exception], ...] = STORED) -> Iterator[None]:
    """Turn errors of the storage into a sentence, which does not repeat its address, since that may hold a password."""
    try:
        yield
    except kinds as error:
        raise UserError(
            f"hydra.sweeper.storage cannot be used ({one_line(error.__cause__ or error)}): give another one, or null for none."
        ) from None


def _opened(url: str) -> RDBStorage:
    """Open a database, in a folder that is made; while another search makes its tables, each attempt fails at one of them."""
    place = make_url(url)
    if place.get_backend_name() == "sqlite" and place.database:
        Path(place.database).parent.mkdir(parents=True, exist_ok=True)
    for attempt in itertools.count(1):
        try:
            return RDBStorage(url, {"poolclass": NullPool}, heartbeat_interval=BEAT_S)  # which keeps no connection open
        except STORED as error:
            if attempt == ATTEMPTS or not (isinstance(error, IntegrityError) or "already exists" in str(error)):
                raise
    raise AssertionError


def _refuse_other_space(study: optuna.Study, space: Mapping[str, BaseDistribution]) -> None:
    """Refuse a space that the study's trials do not share: Optuna keeps one kind of distribution for each key."""
    for trial in study.trials:
        for key in trial.distributions.keys() & space.keys():
            try:
                check_distribution_compatibility(trial.distributions[key], space[key])
            except ValueError:
                raise UserError(
                    f"{key} varies in another way than in the study {study.study_name}, whose lists and kinds of intervals "
                    "stay as they were: give the new search a hydra.sweeper.study_name of its own."
                ) from None


def _suggested(trial: Trial, key: str, distribution: BaseDistribution, waited: bool) -> Any:
    """Return a trial's value of a key. A trial that has waited in the storage brings its own, which may be anything."""
    try:
        value: Any
        if isinstance(distribution, CategoricalDistribution):
            value = trial.suggest_categorical(key, distribution.choices)
            inside = value in distribution.choices
        else:
            assert isinstance(distribution, (IntDistribution, FloatDistribution))
            suggest: Any = trial.suggest_int if isinstance(distribution, IntDistribution) else trial.suggest_float
            value = suggest(key, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
            inside = isinstance(value, (int, float)) and distribution.low <= value <= distribution.high
    except (ValueError, TypeError):
        if not waited:
            raise
        inside = False
    if not inside:
        raise UserError(
            f"trial {trial.number} of the study was waiting with a value of {key} that this search does not take; it counts "
            "as failed, and the same command goes on without it."
        )
    return value


def space_of(overrides: Sequence[Override]) -> tuple[dict[str, BaseDistribution], dict[str, str]]:
    """Return what a search varies, as Optuna's distributions by key, and the values of other keys.

    Raises:
        ValueError: An interval is empty, a list has no values, or what is no interval should have a logarithmic scale.
    """
    last = {override.get_key_element(): override for override in overrides}
    space = {key: _distribution(override) for key, override in last.items() if override.is_sweep_override()}
    return space, {key: override.get_value_element_as_str() for key, override in last.items() if key not in space}


def _distribution(override: Override) -> BaseDistribution:
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        low, high = sweep.start, sweep.end
        assert low is not None  # the parser gives both
        assert high is not None
        if not all(abs(bound) < BOUND for bound in (low, high)):
            raise ValueError(f"{override.get_key_element()} varies from {low} to {high}, which needs finite bounds below 1e300")
        if isinstance(low, int) and isinstance(high, int):
            return IntDistribution(low, high, log="log" in sweep.tags)
        return FloatDistribution(low, high, log="log" in sweep.tags)
    if isinstance(sweep, (RangeSweep, ChoiceSweep)) and "log" in sweep.tags:
        key = override.get_key_element()
        raise ValueError(f"{key} is logarithmic, which only an interval can be: say tag(log, interval(…))")
    choices: list[Any] = list(override.sweep_iterator(transformer=Transformer.encode))
    if choices and isinstance(sweep, RangeSweep):
        kind: Any = IntDistribution if all(isinstance(choice, int) for choice in choices) else FloatDistribution
        return kind(min(choices), max(choices), step=abs(sweep.step))
    return CategoricalDistribution(choices)
