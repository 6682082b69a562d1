"""Sweeps as a person types them: names, states, the table, what a failing job does to the others, and resuming."""

import csv
import json
import logging
import multiprocessing
import queue
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf

from ganexp.cli import waiting
from ganexp.cli.ending import forecast
from ganexp.cli.jobs import _run_job, _set_aside, checkpoint_to_resume
from ganexp.cli.log import SHOWN, Log, OncePerSweep
from ganexp.cli.sweep import _tell_jobs, end
from ganexp.cli.sweeping import Results, Sweep
from ganexp.cli.sweeping.sharing import reserved_gpu, share_of_the_machine, take_jobs_per_gpu
from ganexp.facts import UserError
from ganexp.logging.summary import write_summary
from ganexp.training.checkpoint import FORMAT
from tests import forked
from tests.cli.handmade_sweeps import TINY, make_sweep, sweep_folder
from tests.cli.studies import trials_in
from tests.composing import composed
from tests.full import on_a_full_disk
from tests.logging.records import inspected
from tests.processes import joined, train

FLAKY = """
from pathlib import Path
from ganexp.strategies import detach

def flaky(gan, reals, *, d_steps, g_steps, seed):
    if seed == 1 and not Path("mended").exists() and gan.prior.device.type != "meta":
        raise RuntimeError("as planned")
    detach(gan, reals, d_steps=d_steps, g_steps=g_steps)
"""


def states(folder):
    return [run.state for run in Results.read(folder).jobs.values()]


@pytest.mark.slow
def test_one_run_per_job_and_combinations_that_do_not_fit_are_skipped(tmp_path):
    asked = ["sweep.metric=loss/g", "logger=[wandb]", "logger.wandb.mode=offline"]
    done = train("-m", "loss=hinge,began", "seed=range(2)", *asked, *TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = sweep_folder(tmp_path)
    found = Results.read(folder)
    jobs = found.jobs
    assert states(folder) == ["finished", "finished", "skipped", "skipped"]
    assert found.settings(jobs[1]) == {"loss": "hinge", "seed": "1"}
    assert "discriminator=began" in jobs[2].error
    assert "discriminator=began" in (jobs[2].folder / "train.log").read_text()
    assert found.table() in done.stdout
    assert "Ranked by loss/g, lowest first" in done.stdout
    assert found.ranking_text(80) in done.stdout
    assert re.findall(r"^This job took .* the (\d+) jobs that are left take about", done.stdout, re.M) == ["3"]
    assert "2, 3 skipped: loss=began needs" in done.stdout
    with (folder / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["loss"], row["seed"], row["state"]) for row in rows][:3] == [
        ("hinge", "0", "finished"),
        ("hinge", "1", "finished"),
        ("began", "0", "skipped"),
    ]
    last = json.loads((jobs[0].folder / "summary.json").read_text())["last"]
    assert float(rows[0]["loss/d"]) == last["loss/d"]
    assert (tmp_path / "outputs" / "latest").resolve() == folder.resolve()
    recorded = [inspected(log)["run"][0] for log in tmp_path.glob("outputs/wandb/offline-run-*/*.wandb")]
    assert {run["display_name"] for run in recorded} == {"hinge seed=0", "hinge seed=1"}
    assert {run["run_group"] for run in recorded} == {folder.name}


@pytest.mark.parametrize(
    ("job_s", "left", "said"),
    [(78.4, 26, "This job took 78 s; at this rate the 26 jobs that are left take about 34 minutes.\n"), (900.0, 0, "")],
)
def test_how_long_the_jobs_that_are_left_take(job_s, left, said):
    assert forecast(job_s, left) == said


@pytest.mark.slow
def test_a_failing_job_hides_no_other_and_is_what_is_resumed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "flaky.py").write_text(FLAKY)
    mine = ["strategy._target_=flaky.flaky", "+strategy.seed=0,1,2", "logger=[]", "sample_every=2"]
    done = forked.train("-m", *mine, *TINY, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("Error: job 1 did not finish; the table and its train.log say why.")
    folder = sweep_folder(tmp_path)
    assert states(folder) == ["finished", "failed", "finished"]
    assert "1 failed: RuntimeError: as planned" in done.stdout
    found = Results.read(folder)
    assert "Traceback" in (found.jobs[1].folder / "train.log").read_text()
    assert [found.settings(run) for run in found.jobs.values()] == [{"strategy.seed": str(seed)} for seed in range(3)]

    (tmp_path / "mended").touch()
    before = {path: path.stat().st_mtime_ns for path in folder.glob("[02]_*/metrics.jsonl")}
    done = forked.train("-m", *mine, *TINY, f"sweep.resume={folder.relative_to(tmp_path)}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert states(folder) == ["finished"] * 3
    assert {path: path.stat().st_mtime_ns for path in before} == before
    attempt = json.loads((found.jobs[1].folder / "attempt1" / "summary.json").read_text())
    assert attempt["state"] == "failed"
    assert len(list(tmp_path.glob("outputs/*_multirun"))) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["loss=hinge,wgann"], "loss=wgann is not an option; choose one of"),
        (["sweep.metric=loss/q"], "sweep.metric=loss/q is not logged with loss=nonsaturating; did you mean loss/g?"),
        (["hydra/sweeper=search", "d_steps=range(1,3)"], "sweep.metric must name what a search optimises"),
        (["hydra.sweep.subdir=s${seed}", "seed=0,1"], "hydra.sweep.subdir=s${seed} should begin with ${hydra.job.num}_ and"),
        (["hydra.sweep.subdir=${hydra.job.num}/x", "seed=0,1"], "and be one folder's name: jobs are found by their numbers."),
        (["hydra.job.chdir=true", "seed=0,1"], "hydra.job.chdir=true would make relative paths mean"),
        (["hydra/sweeper=search", "hydra.sweeper.n_jobs=-1"], "hydra.sweeper.n_jobs must be at least 1; got -1."),
        (["hydra.sweeper.max_batch_size=0", "seed=0,1"], "hydra.sweeper.max_batch_size must be at least 1; got 0."),
        (["seed=range(0,0)", "loss=hinge,wgan"], "The sweep has no jobs, since seed or loss has no values"),
        (["resume=auto", "seed=0,1"], "resume=auto is for one run: leave out -m, or continue a sweep with sweep.resume=…."),
    ],
)
def test_a_mistake_in_a_sweep_is_one_sentence_before_anything_is_written(arguments, sentence, tmp_path):
    done = forked.train("-m", *arguments, cwd=tmp_path)
    assert done.returncode != 0
    assert re.fullmatch(r"Preparing a sweep\.\n(Checking (\d+ )?jobs, which begins .+\n(Jobs are still .+\n)*)?", done.stdout)
    said = done.stderr.strip()
    assert said.startswith("Error: ")
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "outputs").exists()


def test_two_sweeps_in_one_folder_are_refused(tmp_path):
    Sweep((), ()).save(tmp_path / "sweep")
    done = forked.train("-m", "seed=0,1", f"hydra.sweep.dir={tmp_path / 'sweep'}", cwd=tmp_path)
    assert done.returncode != 0
    assert "holds a sweep already" in done.stderr
    assert [path.name for path in (tmp_path / "sweep").iterdir()] == ["sweep.json"]


def test_a_sweep_in_the_folder_of_a_run_and_a_run_in_that_of_a_sweep_are_refused(tmp_path):
    Sweep((), ()).save(tmp_path / "sweep")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").touch()
    before = sorted(tmp_path.rglob("*"))
    done = forked.train("-m", "seed=0,1", "hydra.sweep.dir=run", cwd=tmp_path)
    assert done.stderr == "Error: run holds a run: choose another hydra.sweep.dir.\n"
    done = forked.train(*TINY, "logger=[]", "hydra.run.dir=sweep", cwd=tmp_path)
    assert done.stderr == "Error: sweep holds a sweep: choose another hydra.run.dir.\n"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "launcher",
    [
        ["hydra/launcher=parallel", "hydra.launcher.n_jobs=2", "hydra.launcher.jobs_per_gpu=2", r"hydra.sweep.dir='a\${x}'"],
        ["hydra/launcher=submitit_local", "hydra.sweep.dir=a"],
    ],
)
def test_launchers_that_run_jobs_in_other_processes(launcher, tmp_path):
    done = train("-m", *launcher, "loss=hinge,began", "logger=[]", *TINY, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert states(next(tmp_path.glob("a*"))) == ["finished", "skipped"]
    assert done.stdout.count("\n0    hinge  finished") == 1


@pytest.mark.slow
def test_a_search_optimises_a_logged_figure_and_is_continued(tmp_path):
    search = ["hydra/sweeper=search", "hydra.sweeper.n_trials=2", "hydra.sweeper.study_name=lr", "logger=[]"]
    space = ["strategy=detach,joint", "optimizer.lr=tag(log,interval(1e-5,1e-2))", "sweep.metric=speed/images_per_s"]
    search.append(f"hydra.sweeper.storage='sqlite:///{tmp_path}/outputs/optuna.db'")
    for trials in (2, 4):
        done = forked.train("-m", *search, *space, "hydra.sweeper.sampler.seed=3", *TINY, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        kept = trials_in(study_name="lr", storage=f"sqlite:///{tmp_path}/outputs/optuna.db")
        assert len(kept) == trials
    folders = sorted(tmp_path.glob("outputs/*_multirun"))
    found = [job.last.get("speed/images_per_s") for folder in folders for job in Results.read(folder).jobs.values()]
    values = [trial.value for trial in kept]
    assert values == found
    assert f"Best value: {max(values)}" in done.stdout, "the key says that its highest value is best"
    assert {Sweep.load(folder).direction for folder in folders} == {"maximize"}
    assert not any("optuna.db" in path.read_text() for path in tmp_path.rglob("*.json")), "an address may hold a password"


@pytest.mark.slow
def test_a_search_for_what_is_not_logged_says_so(tmp_path):
    search = ["hydra/sweeper=search", "hydra.sweeper.n_trials=1", "logger=[]", "sweep.metric=eval/mine"]
    done = forked.train("-m", *search, "optimizer.lr=interval(1e-4,1e-3)", *TINY, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: no trial of the search has a value")
    assert "Traceback" not in done.stderr
    (job,) = Results.read(sweep_folder(tmp_path)).jobs.values()
    assert "sweep.metric=eval/mine is not among what it logs: progress/iteration, " in job.error


def test_names_are_made_of_what_differs():
    sweep = Sweep((), ("loss", "optimizer.d.lr", "optimizer.g.lr", "generator.width", "seed"))
    job = ["loss=hinge", "optimizer.d.lr=1e-4", "optimizer.g.lr=2e-4", "+generator.width=8", "seed=3", "iterations=5"]
    assert sweep.label(job) == "hinge optimizer.d.lr=1e-4 optimizer.g.lr=2e-4 width=8 seed=3"


@pytest.mark.slow
def test_hydras_own_keys_are_recorded_as_they_were_typed(tmp_path):
    done = forked.train("-m", "hydra.sweep.subdir=${hydra.job.num}_x", "seed=1,2", *TINY, "logger=[]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = sweep_folder(tmp_path)
    assert [job.folder.name for job in Results.read(folder).jobs.values()] == ["0_x", "1_x"]
    assert "hydra.sweep.subdir=${hydra.job.num}_x" in Sweep.load(folder).overrides


def test_a_table_rounds_no_seed_and_passes_over_other_folders(tmp_path):
    seeds = ("123456788", "123456789", "0.123456789")
    Sweep(("a",), ("seed",), tuple((f"seed={seed}",) for seed in seeds)).save(tmp_path)
    (tmp_path / "²_x").mkdir()
    (tmp_path / "²_x" / "metrics.jsonl").touch()
    text = Results.read(tmp_path).table()
    assert all(seed in text for seed in ("123456788", "123456789", "0.1235"))


def test_a_sweep_is_read_back_whatever_state_it_is_in(tmp_path):
    sweep = Sweep(("seed=0,1,2,3",), ("seed",), tuple((f"seed={seed}",) for seed in range(4)))
    sweep.save(tmp_path)
    assert Sweep.load(tmp_path) == sweep
    for number, (rows, summary) in enumerate([('{"progress/iteration": 1, "loss/d": 0.5}\n', None), ("{", "{"), (None, None)]):
        folder = tmp_path / f"{number}_run"
        folder.mkdir()
        for name, text in {"metrics.jsonl": rows, "summary.json": summary}.items():
            if text is not None:
                (folder / name).write_text(text)
    assert states(tmp_path) == ["unfinished", "unfinished", "missing", "missing"]
    assert Results.read(tmp_path).jobs[0].last["loss/d"] == 0.5
    assert re.search(r"^3 +3 +missing", Results.read(tmp_path).table(), re.M)
    assert Results.read(tmp_path).write_csv().read_text().count("\n") == 5


@pytest.mark.parametrize(
    ("typed", "jobs", "processes"), [(24, 2, 2), (100_000, 3, 3), (2, 9, 2), (-1, 9, 4), (-3, 9, 2), (-99, 9, 1), (-1, 2, 2)]
)
def test_no_more_processes_run_than_there_are_jobs(typed, jobs, processes, monkeypatch):
    monkeypatch.setattr("psutil.cpu_count", lambda: 4)
    cfg = OmegaConf.create({"hydra": {"launcher": {"n_jobs": typed}, "sweep": {"dir": "x"}}})
    loader = SimpleNamespace()
    _tell_jobs(loader, cfg, Path("a"), jobs)
    assert cfg.hydra.launcher.n_jobs == loader.job_values["hydra.launcher.n_jobs"] == processes


def hold(folder, seconds, told, jobs=1):
    with reserved_gpu(2, Path(folder), jobs=jobs, poll_s=0.01) as index:
        told.put(("took", index))
        time.sleep(seconds)
        told.put(("gave", index))


def test_no_gpu_is_given_to_two_jobs_at_once(tmp_path):
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    jobs = [context.Process(target=hold, args=(tmp_path, 0.1, told)) for _ in range(6)]
    for job in jobs:
        job.start()
    events = [told.get(timeout=30) for _ in range(12)]
    joined(*jobs)
    held = set()
    for what, index in events:
        assert (index in held) == (what == "gave")
        (held.remove if what == "gave" else held.add)(index)
    assert {index for _, index in events} == {0, 1}


def test_jobs_that_share_a_gpu_are_as_many_as_asked_for_and_no_more(tmp_path):
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    with ExitStack() as held:
        assert [held.enter_context(reserved_gpu(2, tmp_path, jobs=3)) for _ in range(6)] == [0, 1, 0, 1, 0, 1]
        further = context.Process(target=hold, args=(tmp_path, 0, told, 3))
        further.start()
        with pytest.raises(queue.Empty):
            told.get(timeout=0.3)
    assert told.get(timeout=30)[0] == "took"
    joined(further)


def test_who_wants_a_gpu_alone_waits_for_an_empty_one(tmp_path):
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    with reserved_gpu(1, tmp_path, jobs=4) as index, reserved_gpu(1, tmp_path, jobs=2), reserved_gpu(1, tmp_path, jobs=5):
        alone = context.Process(target=hold_the_only_one, args=(tmp_path, told))
        alone.start()
        assert index == 0
        with pytest.raises(queue.Empty):
            told.get(timeout=0.3)
    assert told.get(timeout=30) == 0
    joined(alone)


def hold_the_only_one(folder, told):
    with reserved_gpu(1, folder, poll_s=0.01) as index:
        told.put(index)


def test_jobs_of_a_sweep_divide_its_gpus_as_the_launcher_says(tmp_path, monkeypatch):
    chosen = []
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    with ExitStack() as jobs:
        for _ in range(4):
            jobs.enter_context(share_of_the_machine("auto", {"n_jobs": 4, "jobs_per_gpu": 2}))
    assert chosen == [0, 1, 0, 1]


@pytest.mark.parametrize("jobs", [0, 25, 1.5, "many", True])
def test_a_wrong_number_of_jobs_on_a_gpu_is_refused_by_its_key(jobs):
    with pytest.raises(UserError, match=r"^hydra\.launcher\.jobs_per_gpu "):
        take_jobs_per_gpu(OmegaConf.create({"n_jobs": 2, "jobs_per_gpu": jobs}))


def test_a_reused_worker_takes_a_gpu_again(tmp_path):
    for _ in range(3):
        with reserved_gpu(1, tmp_path) as index:
            assert index == 0


@pytest.mark.parametrize(("asked", "threads"), [(None, 2), ("3", 5)])
def test_a_parallel_job_has_its_share_of_the_threads_or_as_many_as_were_asked_for(asked, threads, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr("ganexp.distributed.joining.cores", lambda: 8)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(5)  # by torch itself, when it is imported
        with share_of_the_machine("cpu", {"n_jobs": 4}):
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_the_threads_of_a_job_end_with_it():
    before = torch.get_num_threads()
    for launcher in ({}, {"n_jobs": 2}):
        with share_of_the_machine("auto", launcher):
            torch.set_num_threads(before + 3)
        assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("state", "goes_on"), [("preempted", True), ("skipped", True), ("unfinished", True), ("failed", False)]
)
def test_a_job_that_was_refused_when_it_was_to_go_on_goes_on_later(state, goes_on, tmp_path):
    def path():
        checkpoint = checkpoint_to_resume(tmp_path)
        return checkpoint and checkpoint.path

    earlier, last = (tmp_path / "checkpoints" / name for name in ("iteration_000000001.pt", "last.pt"))
    for one in (earlier, last):
        one.parent.mkdir(exist_ok=True)
        torch.save({"format": FORMAT, "config": {}, "run": {"iteration": 1}}, one)
    write_summary(tmp_path, {"state": state})
    assert path() == (last if goes_on else None)
    last.write_bytes(b"broken")
    assert path() == (earlier if goes_on else None)
    last.unlink()
    assert path() == (earlier if goes_on else None)
    earlier.write_bytes(b"broken")
    assert checkpoint_to_resume(tmp_path) is None


def test_a_job_that_was_killed_once_it_had_trained_is_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "0_x").mkdir()
    write_summary(tmp_path / "0_x", {"state": "finished", "last": {"loss/d": 0.5}})
    job = {"runtime": {"output_dir": f"{tmp_path}/0_x"}, "job": {"num": 0}, "overrides": {"task": ["seed=3", "trust=[]"]}}
    assert _run_job(composed("sweep.metric=loss/d"), OmegaConf.create(job), Log()) == 0.5
    summary = {"state": "finished", "last": {"loss/d": 0.5}, "job": 0, "overrides": ["seed=3"]}
    assert json.loads((tmp_path / "0_x" / "summary.json").read_text()) == summary
    assert [path.name for path in (tmp_path / "0_x").iterdir()] == ["summary.json"]


@pytest.mark.parametrize("moved", range(3))
def test_a_failed_job_begins_anew_however_far_the_attempt_before_was_set_aside(moved, tmp_path, monkeypatch):
    (tmp_path / "checkpoints").mkdir()
    for name in ("metrics.jsonl", "checkpoints/last.pt"):
        (tmp_path / name).touch()
    write_summary(tmp_path, {"state": "failed"})
    move, left = shutil.move, iter(range(moved))

    def killed(*paths):
        if next(left, None) is None:
            raise KeyboardInterrupt
        move(*paths)

    monkeypatch.setattr(shutil, "move", killed)
    with pytest.raises(KeyboardInterrupt):
        _set_aside(tmp_path)
    monkeypatch.undo()
    assert checkpoint_to_resume(tmp_path) is None
    _set_aside(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {"attempt1", "attempt2"}
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 3


def test_a_table_that_does_not_fit_on_the_disk_leaves_the_one_before(tmp_path):
    make_sweep(tmp_path, {"loss=hinge": [1.0, 2.0]})
    write_csv = Results.read(tmp_path).write_csv
    before = write_csv().read_bytes()
    assert on_a_full_disk(write_csv, room=20) == f"OSError: [Errno 27] File too large: '{tmp_path}/sweep.csv'"
    assert (tmp_path / "sweep.csv").read_bytes() == before


def test_failed_jobs_are_an_error_also_where_no_table_can_be_written(tmp_path, monkeypatch, capsys):
    sweep = make_sweep(tmp_path / "sweep", {"loss=hinge": [1.0, "failed"]})
    (sweep / "sweep.csv").mkdir()
    with pytest.raises(UserError, match=r"job 1 did not finish; the table and its train\.log say why"):
        end(sweep)
    assert "No sweep.csv: " in capsys.readouterr().out


def test_what_jobs_say_about_settings_is_shown_once_whichever_process_they_run_in(tmp_path):
    def record(name, text):
        return logging.LogRecord(name, logging.WARNING, "", 0, text, (), None)

    with ThreadPoolExecutor(8) as workers:  # each with a filter of its own, as processes have
        shown = [*workers.map(lambda _: OncePerSweep(tmp_path).filter(record("ganexp.config.check", "few images")), range(40))]
        other = [*workers.map(lambda _: OncePerSweep(tmp_path).filter(record("ganexp.cli.jobs", "Job 3")), range(5))]
    assert sum(shown) == 1
    assert all(other)
    assert OncePerSweep(tmp_path).filter(record("ganexp.data.cache", "many images"))
    (tmp_path / "file").touch()
    assert OncePerSweep(tmp_path / "file").filter(record("ganexp.data.cache", "many images"))  # where nothing can be written


def test_a_job_that_has_nothing_to_say_of_its_settings_ends_the_lines_on_starting_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(waiting, "EVERY_S", 0.05)
    Log(sweep=tmp_path)
    with waiting.speaking("Processes are still being started", until=(tmp_path / SHOWN).exists):
        time.sleep(0.3)
    assert not capsys.readouterr().out


def test_what_takes_long_says_that_it_still_goes_on_until_something_else_speaks(monkeypatch, capsys):
    monkeypatch.setattr(waiting, "EVERY_S", 0.05)
    lines = iter([False, False, True])
    with waiting.speaking("Jobs are still being checked", until=lambda: next(lines, True)):
        time.sleep(1)
    assert capsys.readouterr().out.count("Jobs are still being checked, for 0 s.\n") == 2
    with waiting.speaking("Never said"):
        pass
    time.sleep(0.2)
    assert not capsys.readouterr().out
