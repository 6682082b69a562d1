"""A search asks Optuna for settings and tells it what the jobs return: here, of a function whose lowest value is known."""

import math

import optuna
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from ganexp.cli.sweeping.search import Search, space_of
from tests import forked
from tests.small_runs import SMALL


class Launcher:
    """Runs each job as a function of its settings."""

    def __init__(self, function):
        self.function, self.batches = function, []

    def launch(self, jobs, initial_job_idx):
        self.batches.append((initial_job_idx, len(jobs)))
        return [self._ended(dict(word.split("=") for word in words)) for words in jobs]

    def _ended(self, settings):
        ended = JobReturn()
        ended.status, ended.return_value = JobStatus.COMPLETED, self.function(settings)
        return ended


def search(function, *words, **settings):
    asked = {"sampler": optuna.samplers.TPESampler(seed=0), "direction": "minimize", "storage": None, "study_name": None}
    made = Search(**asked | {"n_trials": 20, "n_jobs": 1, "params": None} | settings)
    made._launcher, made._loader = Launcher(function), None
    made.sweep(list(words))
    return made._launcher.batches


def parsed(*words):
    return OverridesParser.create().parse_overrides(list(words))


@pytest.mark.parametrize(
    ("word", "distribution"),
    [
        ("x=int(interval(1,8))", IntDistribution(1, 8)),
        ("x=tag(log,int(interval(1,8)))", IntDistribution(1, 8, log=True)),
        ("x=interval(0.5,8)", FloatDistribution(0.5, 8.0)),
        ("x=tag(log,interval(1e-5,1e-2))", FloatDistribution(1e-5, 1e-2, log=True)),
        ("x=range(1,8,3)", IntDistribution(1, 7, step=3)),
        ("x=range(8,2,-2)", IntDistribution(4, 8, step=2)),  # without its end, as in any sweep
        ("x=range(0.0,1.0,0.25)", FloatDistribution(0.0, 0.75, step=0.25)),
        ("x=joint,detach", CategoricalDistribution(["joint", "detach"])),
        ("x=[r1],[r2,r1]", CategoricalDistribution(["[r1]", "[r2,r1]"])),
        ("x=1,2.5,true", CategoricalDistribution([1, 2.5, True])),
    ],
)
def test_a_sweep_on_the_command_line_is_the_distribution_that_it_says(word, distribution):
    assert space_of(parsed("y=3", word)) == ({"x": distribution}, {"y": "3"})


@pytest.mark.parametrize("word", ["tag(log,range(1,100))", "tag(log,range(0.1,1.0,0.1))", "tag(log,choice(1,10))"])
def test_nothing_but_an_interval_is_logarithmic(word):
    with pytest.raises(ValueError, match=r"x is logarithmic, which only an interval can be: say tag\(log, interval"):
        space_of(parsed(f"x={word}"))


def test_the_later_word_counts():
    assert space_of(parsed("x=1,2", "x=3")) == ({}, {"x": "3"})
    assert space_of(parsed("x=3", "x=1,2"))[1] == {}


@pytest.mark.parametrize("direction", ["minimize", pytest.param("maximize", marks=pytest.mark.slow)])
def test_it_finds_the_best_of_a_parabola(direction, tmp_path, capsys):
    sign = 1 if direction == "minimize" else -1
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    batches = search(
        lambda one: sign * (float(one["x"]) - 0.7) ** 2 + (one["y"] == "bad") * sign,
        *("x=interval(-2,3.0)", "z=5"),
        **{"params": {"y": "good,bad"}, "direction": direction, "n_trials": 42, "n_jobs": 4} | kept,
    )
    assert batches == [*((begun, 4) for begun in range(0, 40, 4)), (40, 2)]
    study = optuna.load_study(**kept)
    assert study.best_params["y"] == "good"
    assert study.best_params["x"] == pytest.approx(0.7, abs=0.1)
    for trial in study.trials:
        value = (trial.params["x"] - 0.7) ** 2 + (trial.params["y"] == "bad")
        assert trial.value == pytest.approx(sign * value)
    assert f"Best value: {study.best_value}" in capsys.readouterr().out


def test_what_has_no_value_is_a_failed_trial_and_a_later_search_goes_on(tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    values = iter([None, math.nan, 3.0, 1.0])
    search(lambda _: next(values), "x=interval(0.0,1.0)", n_trials=4, **kept)
    with pytest.raises(KeyboardInterrupt):
        search(interrupted, "x=interval(0.0,1.0)", n_trials=4, **kept)
    search(lambda _: 2.0, "x=interval(0.0,1.0)", n_trials=1, **kept)
    study = optuna.load_study(**kept)
    states = [TrialState.FAIL] * 2 + [TrialState.COMPLETE] * 2 + [TrialState.FAIL, TrialState.COMPLETE]
    assert [trial.state for trial in study.trials] == states
    assert study.best_value == 1.0


def interrupted(_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["optimizer.lr=interval(1e-2,1e-4)"], "the search cannot begin: "),
        (["optimizer.lr=tag(log,interval(0.0,1e-4))"], "the search cannot begin: "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.sampler._target_=optuna.samplers.Other"], "hydra.sweeper.sampler "),
        (["optimizer.lr=1e-3,1e-4", "+hydra.sweeper.sampler.sed=3"], "hydra.sweeper.sampler "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.n_trails=3"], "Unknown key hydra.sweeper.n_trails. "),
    ],
)
def test_a_mistake_in_a_search_is_one_sentence_before_anything_is_written(words, sentence, tmp_path):
    done = forked.train("-m", "hydra/sweeper=search", "sweep.metric=loss/g", *words, *SMALL, "logger=[]", cwd=tmp_path)
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"Error: {sentence}")
    assert [*tmp_path.iterdir()] == []
