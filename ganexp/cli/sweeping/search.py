"""A search: Optuna chooses the settings of each trial by the outcomes of those before it."""

import logging
from collections.abc import Sequence
from math import isnan
from typing import Any

import optuna
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep, Transformer
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState


class Search(Sweeper):
    """Asks an Optuna study for `n_trials` trials, has the launcher run them as jobs, and tells the study what they return.

    A job that returns no number, or NaN, is a failed trial. If the study has a name and a storage, it keeps its trials there,
    and a later search of the same name begins with them.

    Args:
        sampler: What proposes settings, one of `optuna.samplers`.
        direction: `minimize` or `maximize`.
        storage: The URL of the database of studies; if None, the study ends with the process.
        study_name: If None, the study is a new one.
        n_trials: How many trials this search adds.
        n_jobs: How many trials are proposed at a time, for a launcher that runs them side by side.
        params: A part of the space, `{key: sweep}`; words of the command line come later, and the later word counts.

    Raises:
        ValueError: The space or the direction is invalid, or no trial of the study has a value.
        RuntimeError: The storage is of an older Optuna.
    """

    def __init__(
        self,
        *,
        sampler: optuna.samplers.BaseSampler,
        direction: str,
        storage: str | None,
        study_name: str | None,
        n_trials: int,
        n_jobs: int,
        params: dict[str, str] | None,
    ) -> None:
        self._study: dict[str, Any] = {"sampler": sampler, "direction": direction, "storage": storage, "study_name": study_name}
        self._n_trials, self._n_jobs, self._params = n_trials, n_jobs, params or {}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the launcher, as every sweeper does."""
        self._loader: ConfigLoader = hydra_context.config_loader
        self._launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run the trials, and print the best one of the study."""
        words = [f"{key}={value}" for key, value in self._params.items()] + arguments
        space, fixed = space_of(OverridesParser.create(config_loader=self._loader).parse_overrides(words))
        optuna.logging.set_verbosity(logging.WARNING)
        study = optuna.create_study(**self._study, load_if_exists=True)
        for begun in range(0, self._n_trials, self._n_jobs):
            trials = [study.ask(space) for _ in range(min(self._n_jobs, self._n_trials - begun))]
            jobs = [[f"{key}={value}" for key, value in (trial.params | fixed).items()] for trial in trials]
            returned: Sequence[JobReturn] = ()
            try:
                returned = self._launcher.launch(jobs, initial_job_idx=begun)
            finally:  # a stopped search leaves no trial that seems to be running
                values = [one.return_value if one.status is JobStatus.COMPLETED else None for one in returned]
                for trial, value in zip(trials, [*values, *[None] * len(trials)], strict=False):
                    study.tell(trial, *((None, TrialState.FAIL) if value is None or isnan(value) else (value,)))
        print(f"\nBest of the study's {len(study.trials)} trials: {study.best_params}\nBest value: {study.best_value}")


def space_of(overrides: Sequence[Override]) -> tuple[dict[str, BaseDistribution], dict[str, str]]:
    """Return what a search varies, as Optuna's distributions by key, and the values of other keys.

    Raises:
        ValueError: An interval is empty, a list has no values, or what is no interval should have a logarithmic scale.
    """
    last = {one.get_key_element(): one for one in overrides}
    space = {key: _distribution(one) for key, one in last.items() if one.is_sweep_override()}
    return space, {key: one.get_value_element_as_str() for key, one in last.items() if key not in space}


def _distribution(override: Override) -> BaseDistribution:
    sweep = override.value()
    if isinstance(sweep, IntervalSweep):
        low, high = sweep.start, sweep.end
        assert low is not None  # the parser gives both
        assert high is not None
        if isinstance(low, int) and isinstance(high, int):
            return IntDistribution(low, high, log="log" in sweep.tags)
        return FloatDistribution(low, high, log="log" in sweep.tags)
    if isinstance(sweep, (RangeSweep, ChoiceSweep)) and "log" in sweep.tags:
        key = override.get_key_element()
        raise ValueError(f"{key} is logarithmic, which only an interval can be: say tag(log, interval(…))")
    choices: list[Any] = list(override.sweep_iterator(transformer=Transformer.encode))
    if choices and isinstance(sweep, RangeSweep):
        kind: Any = IntDistribution if all(isinstance(one, int) for one in choices) else FloatDistribution
        return kind(min(choices), max(choices), step=abs(sweep.step))
    return CategoricalDistribution(choices)
