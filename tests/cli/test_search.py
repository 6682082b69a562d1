"""A search asks Optuna for settings and tells it what the jobs return: here, of a function whose lowest value is known."""

import math
import os
import signal
import sqlite3
import time
import warnings
from contextlib import closing

import optuna
import psutil
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from ganexp.cli.sweeping.search import Search, space_of
from ganexp.facts import UserError
from tests import forked
from tests.cli.studies import study_in, trials_in
from tests.processes import reaped
from tests.small_runs import SMALL


class Launcher:
    """Runs each job as a function of its settings."""

    def __init__(self, function):
        self.function, self.batches, self.jobs = function, [], []

    def launch(self, jobs, initial_job_idx):
        self.batches.append((initial_job_idx, len(jobs)))
        self.jobs += jobs
        return [self._ended(dict(word.split("=") for word in words)) for words in jobs]

    def _ended(self, settings):
        ended = JobReturn()
        ended.status, ended.return_value = JobStatus.COMPLETED, self.function(settings)
        return ended


def search(function, *words, metric="loss/g", **settings):
    return launched(function, *words, metric=metric, **settings).batches


def launched(function, *words, metric="loss/g", **settings):
    asked = {"sampler": optuna.samplers.TPESampler(seed=0), "direction": "minimize", "storage": None, "study_name": None}
    made = Search(**asked | {"n_trials": 20, "n_jobs": 1, "params": None} | settings)
    made._launcher, made._loader, made._metric = Launcher(function), None, metric
    made.sweep(list(words))
    return made._launcher


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
    with study_in(**kept) as study:
        trials, best = study.trials, study.best_trial
    assert best.params["y"] == "good"
    assert best.params["x"] == pytest.approx(0.7, abs=0.1)
    for trial in trials:
        value = (trial.params["x"] - 0.7) ** 2 + (trial.params["y"] == "bad")
        assert trial.value == pytest.approx(sign * value)
    assert f"Best value: {best.value}" in capsys.readouterr().out


def test_what_has_no_value_is_a_failed_trial_and_a_later_search_goes_on(tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    values = iter([None, math.nan, 3.0, 1.0])
    search(lambda _: next(values), "x=interval(0.0,1.0)", n_trials=4, **kept)
    with pytest.raises(KeyboardInterrupt):
        search(interrupted, "x=interval(0.0,1.0)", n_trials=4, **kept)
    search(lambda _: 2.0, "x=interval(0.0,1.0)", n_trials=1, **kept)
    trials = trials_in(**kept)
    states = [TrialState.FAIL] * 2 + [TrialState.COMPLETE] * 2 + [TrialState.FAIL, TrialState.COMPLETE]
    assert [trial.state for trial in trials] == states


SPACE = {"x": FloatDistribution(0.0, 1.0), "y": CategoricalDistribution(["good", "bad"])}
WORDS = ["x=interval(0.0,1.0)", "y=good,bad"]


def waiting(kept, params, distributions):
    """Put a trial into a study's database as anyone may who can write there."""
    with study_in(**kept) as study:
        study.add_trial(optuna.create_trial(state=TrialState.WAITING, params=params, distributions=distributions))


def any_of(value):
    return CategoricalDistribution([value])


def test_a_trial_that_waits_in_the_database_gives_values_of_the_searchs_own_keys_and_nothing_else(tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    evil = {"trust": "evil", "generator._target_": "evil.G", "hydra.run.dir": "/elsewhere", "z": "6"}
    waiting(kept, {"x": 0.25, "y": "bad", **evil}, SPACE | {key: any_of(value) for key, value in evil.items()})
    with study_in(**kept) as study:
        study.enqueue_trial({"x": 0.5, **evil})
    jobs = launched(lambda _: 1.0, *WORDS, "z=5", n_trials=3, **kept).jobs
    assert jobs[0] == ["x=0.25", "y=bad", "z=5"]
    assert [[word.partition("=")[0] for word in job] for job in jobs] == [["x", "y", "z"]] * 3
    assert jobs[1][0] == "x=0.5"


@pytest.mark.parametrize(
    "value", [2.0, -0.001, "0.5,trust=evil", "0.5", float("inf"), None, [0.5], {"_target_": "evil.G"}], ids=repr
)
def test_a_value_outside_of_the_space_is_refused_and_its_trial_has_failed(value, tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna says what it thinks of the type
        with study_in(**kept) as study:
            study.enqueue_trial({"x": value})
        with pytest.raises(UserError, match=r"^trial 0 .* x "):
            search(lambda _: pytest.fail("it was run"), *WORDS, n_trials=2, n_jobs=2, **kept)
    assert [trial.state for trial in trials_in(**kept)] == [TrialState.FAIL]
    assert len(launched(lambda _: 1.0, *WORDS, n_trials=2, **kept).jobs) == 2


def test_nor_is_a_number_that_the_database_holds_under_the_spaces_own_distribution(tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    for value, broken in ((7.5, "^trial 0 .* x "), (9.0, "^hydra.sweeper.storage ")):
        waiting(kept, {"x": 0.5, "y": "good"}, SPACE)
        with closing(sqlite3.connect(tmp_path / "o.db")) as database, database:
            key = "x" if value == 7.5 else "y"  # of a choice, its place in the list
            database.execute("UPDATE trial_params SET param_value = ? WHERE param_name = ?", (value, key))
        with pytest.raises(UserError, match=broken):
            search(lambda _: pytest.fail("it was run"), *WORDS, n_trials=1, **kept)


@pytest.mark.parametrize("other", [{"direction": "maximize"}, {"metric": "loss/d"}])
def test_a_study_is_continued_with_its_own_metric_and_direction_only(other, tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    for _ in range(2):
        search(lambda _: 1.0, *WORDS, n_trials=1, **kept)
    with pytest.raises(UserError, match=r"^hydra\.sweeper\.study_name=s was begun to minimize loss/g, not to "):
        search(lambda _: pytest.fail("it was run"), *WORDS, n_trials=1, **kept, **other)
    assert len(trials_in(**kept)) == 2


def test_a_study_of_two_objectives_is_none_of_ours(tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    with study_in(directions=["minimize", "maximize"], **kept):
        pass
    with pytest.raises(UserError, match=r"^hydra\.sweeper\.study_name=s "):
        search(lambda _: pytest.fail("it was run"), *WORDS, **kept)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("kind", ["GridSampler", "BruteForceSampler"])
def test_a_sampler_that_has_tried_everything_ends_the_search(kind):
    grid = [{"x": [0.25, 0.5], "y": ["good", "bad"]}] if kind == "GridSampler" else []
    sampler = getattr(optuna.samplers, kind)(*grid)
    jobs = launched(lambda _: 1.0, "x=range(0.25,0.6,0.25)", "y=good,bad", sampler=sampler, n_trials=9).jobs
    assert sorted(jobs) == [[f"x={x}", f"y={y}"] for x in (0.25, 0.5) for y in ("bad", "good")]


def test_trials_of_a_killed_search_have_failed_once_nothing_was_heard_of_them(tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    child = os.fork()
    if child == 0:
        search(lambda _: os.kill(os.getpid(), signal.SIGKILL), *WORDS, **kept)
    assert reaped([child]) == {child: -signal.SIGKILL}
    for later, state in ((0, TrialState.RUNNING), (200, TrialState.FAIL)):
        with closing(sqlite3.connect(tmp_path / "o.db")) as database, database:
            changed = "UPDATE trial_heartbeats SET heartbeat = datetime(heartbeat, ?) WHERE trial_id = 1"
            assert database.execute(changed, (f"-{later} seconds",)).rowcount == 1
        search(lambda _: 1.0, *WORDS, n_trials=1, **kept)
        assert trials_in(**kept)[0].state == state


def test_searches_that_make_one_study_at_the_same_moment_share_it(tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    begin, children = time.monotonic() + 0.2, []
    for _ in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            code = 1
            try:
                time.sleep(max(0, begin - time.monotonic()))
                search(lambda _: 1.0, *WORDS, n_trials=1, **kept)
                code = 0
            finally:
                os._exit(code)
    assert reaped(children) == dict.fromkeys(children, 0)
    assert len(trials_in(**kept)) == 4


def test_the_database_is_closed(tmp_path):
    search(lambda _: 1.0, *WORDS, n_trials=2, storage=f"sqlite:///{tmp_path}/o.db")
    assert [file.path for file in psutil.Process().open_files() if str(tmp_path) in file.path] == []


def interrupted(_):
    raise KeyboardInterrupt


GRID = ["hydra.sweeper.sampler._target_=optuna.samplers.GridSampler", "+hydra.sweeper.sampler.search_space={x:[1]}"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["optimizer.lr=interval(1e-2,1e-4)"], "the search cannot begin: "),
        (["optimizer.lr=tag(log,interval(0.0,1e-4))"], "the search cannot begin: "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.sampler._target_=optuna.samplers.Other"], "hydra.sweeper.sampler "),
        (["optimizer.lr=1e-3,1e-4", "+hydra.sweeper.sampler.sed=3"], "hydra.sweeper.sampler "),
        (["optimizer.lr=1e-3,1e-4", *GRID], "hydra.sweeper.sampler "),
        (["optimizer.lr=interval(0,1e400)"], "the search cannot begin: optimizer.lr "),
        (["optimizer.lr=interval(nan,1)"], "the search cannot begin: optimizer.lr "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.n_trials=x"], "hydra.sweeper.n_trials "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.n_jobs=x"], "hydra.sweeper.n_jobs "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.direction=up"], "hydra.sweeper.direction "),
        (["optimizer.lr=1e-3,1e-4", "sweep.direction=up"], "sweep.direction "),
        (["optimizer.lr=1e-3,1e-4", "sweep.metric=[a]"], "sweep.metric "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.storage=junk"], "hydra.sweeper.storage "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.storage=sqlite:////proc/x.db"], "hydra.sweeper.storage "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.storage=mysql://me:secret@localhost/x"], "hydra.sweeper.storage "),
        (["optimizer.lr=1e-3,1e-4", "hydra.sweeper.n_trails=3"], "Unknown key hydra.sweeper.n_trails. "),
    ],
)
def test_a_mistake_in_a_search_is_one_sentence_before_anything_is_written(words, sentence, tmp_path):
    done = forked.train("-m", "hydra/sweeper=search", "sweep.metric=loss/g", *words, *SMALL, "logger=[]", cwd=tmp_path)
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"Error: {sentence}")
    assert "secret" not in said
    assert [*tmp_path.iterdir()] == []


def emptied(path):
    with closing(sqlite3.connect(path)) as database, database:
        for table in ("trial_params", "studies"):
            database.execute(f"DROP TABLE IF EXISTS {table}")
            database.execute(f"CREATE TABLE {table} (something TEXT)")


BROKEN = {
    "a text": lambda path: path.write_text("no database"),
    "a folder": lambda path: path.mkdir(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "of another program": emptied,
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_or_foreign_database_is_one_sentence(how, tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    if how in ("cut", "of another program"):
        search(lambda _: 1.0, *WORDS, n_trials=2, **kept)
    BROKEN[how](tmp_path / "o.db")
    with pytest.raises(UserError, match=r"^hydra\.sweeper\.storage [^\n]+$"):
        search(lambda _: pytest.fail("it was run"), *WORDS, **kept)


def test_a_study_over_other_values_is_one_sentence_before_anything_is_written(tmp_path):
    kept = {"storage": f"sqlite:///{tmp_path}/o.db", "study_name": "s"}
    search(lambda _: 1.0, "optimizer.lr=1e-3,1e-4", n_trials=1, **kept)
    before = [*tmp_path.iterdir()]
    words = ["optimizer.lr=1e-3,1e-5", *(f"hydra.sweeper.{key}={value}" for key, value in kept.items())]
    done = forked.train("-m", "hydra/sweeper=search", "sweep.metric=loss/g", *words, *SMALL, "logger=[]", cwd=tmp_path)
    assert done.stderr.startswith("Error: optimizer.lr ")
    assert len(done.stderr.splitlines()) == 1
    assert [*tmp_path.iterdir()] == before
