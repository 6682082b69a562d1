"""Finding what is to be resumed, whatever it is called and whatever has happened to its files."""

import json
import os
import re
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from ganexp.cli.line import Line, read_line
from ganexp.cli.naming import by_latest
from ganexp.cli.resuming import find_checkpoint, found_by_auto, newest_unfinished, resumed
from ganexp.cli.sweep import _literal, continued
from ganexp.cli.sweeping import Results, Sweep
from ganexp.config.plain import plain
from ganexp.facts import UserError
from tests.composing import composed
from tests.small_runs import Interrupting, rows, small_run


@settings(deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1) | st.text("\\${}a'", min_size=1))
def test_nothing_in_a_folders_name_is_interpolated(value):
    assert OmegaConf.create({"resume": _literal(value)}).resume == value


def run_folder(folder, *overrides, **values):
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.pt").touch()
    (folder / "config.json").write_text(json.dumps(plain(composed(*overrides)) | values))
    return folder


def asked(*words):
    line = read_line(words)
    return resumed(line, line.value_of("resume"))


def test_a_line_is_read_with_its_folders_wherever_its_options_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = read_line(["-cd", "mine", "loss=hinge", "--config-name=other", "~penalty", "-m", "optimizer.lr=-1"])
    assert line == Line(("loss=hinge", "~penalty", "optimizer.lr=-1"), sweeps=True, further=tmp_path / "mine", name="other")
    assert line.options == ["--config-dir", str(tmp_path / "mine"), "--config-name", "other"]
    assert read_line(["a=1", "+a=2=3"]).value_of("a") == "2=3"
    for wrong in (["--config-dir"], ["--loss=hinge"]):
        with pytest.raises(UserError, match=re.escape(wrong[0].partition("=")[0].lstrip("-"))):
            read_line(wrong)


def test_a_run_goes_on_with_its_own_values_and_with_what_is_typed_over_them(tmp_path):
    folder = run_folder(tmp_path / "run (1), {x}='ü'", "experiment=grid", "seed=3", "logger=[]", "data_root=/theirs")
    words = ["iterations=77", "log_every=7", "evaluation.samples=99", "logger=[tensorboard]", "data_root=/mine", "trust=mine"]
    found = asked(f"resume={folder}", *words)
    assert found.checkpoint == folder / "checkpoints" / "last.pt"
    new = {"iterations": 77, "log_every": 7, "data_root": "/mine", "trust": "mine", "resume": None}
    wanted = plain(composed("experiment=grid", "seed=3", "logger=[tensorboard]")) | new
    wanted["evaluation"]["samples"] = 99
    assert found.values == wanted


def test_a_set_of_torchvision_is_looked_for_where_this_machine_keeps_them(tmp_path):
    folder = run_folder(tmp_path / "run", "dataset=mnist", "data_root=/theirs")
    assert asked(f"resume={folder}").values["dataset"]["root"] == asked(f"resume={folder}").values["data_root"] != "/theirs"
    assert asked(f"resume={folder}", "data_root=/mine").values["dataset"]["root"] == "/mine"


def test_choices_may_be_typed_again(tmp_path):
    words = ["loss=hinge", "penalty=[r1,spectral]", "optimizer.lr=1e-3"]
    folder = run_folder(tmp_path / "run", *words)
    assert asked(f"resume={folder}", *words).values == asked(f"resume={folder}").values


@pytest.mark.parametrize(
    "word",
    [
        *("iterations.x=3", "loss=hinge", "+loss=hinge", "experiment=grid", "~penalty", "~iterations", "seed=1,2"),
        *("seed=range(3)", "loss@x=hinge", "evaluation.protocol=fid", "hydra.run.dir=elsewhere", "iterations", "log_every=2)"),
    ],
)
def test_what_cannot_be_laid_over_a_run_is_refused_by_name(word, tmp_path):
    folder = run_folder(tmp_path / "run")
    with pytest.raises(UserError, match=re.escape(word.partition("=")[0])) as refused:
        asked(f"resume={folder}", word)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "\x00", "[" * 100_000])
def test_a_broken_configuration_of_a_run_is_one_sentence(text, tmp_path):
    folder = run_folder(tmp_path / "run")
    (folder / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"\Aresume=\S+: [^\n]+config\.json is missing or broken: "):
        asked(f"resume={folder}")


def test_a_link_is_followed_and_one_to_itself_is_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path / "outputs" / "run")
    (tmp_path / "outputs" / "latest").symlink_to("run")
    assert str(find_checkpoint("outputs/latest")) == "outputs/run/checkpoints/last.pt"
    assert str(find_checkpoint("'outputs/latest'")) == "outputs/run/checkpoints/last.pt"  # as Hydra wants it quoted
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "sweep").mkdir()
    Sweep((), ()).save(tmp_path / "sweep")
    for name, sentence in {"loop": "has no checkpoint", "x" * 5000: "has no checkpoint", "sweep": "sweep.resume=sweep"}.items():
        with pytest.raises(UserError, match=sentence):
            find_checkpoint(name)
    with pytest.raises(UserError, match="holds no sweep"):
        continued(read_line(["-m", "sweep.resume=loop"]))


def test_a_sweep_goes_on_with_the_words_that_it_was_started_with_and_with_no_others(tmp_path):
    words = ("iterations=20", "seed=0,1", "hydra/launcher=parallel")
    Sweep(words, ("seed",), (("seed=0",), ("seed=1",)), options=("--config-dir", "/mine")).save(tmp_path)
    resume = f"sweep.resume={tmp_path}"
    line = read_line(["-cd", "/mine", "iterations=20", resume, "seed=0,1", "trust=mine", "hydra.verbose=true"])
    assert continued(line) == tmp_path
    assert continued(read_line(["-m", "seed=0,1"])) is None
    for others in (["-cd", "/mine"], ["-cd", "/mine", "iterations=30", "seed=0,1"], ["iterations=20", "seed=0,1"]):
        with pytest.raises(UserError, match=r"beside it, --config-dir /mine iterations=20 seed=0,1\.$"):
            continued(read_line([*others, resume]))
    Sweep(words, ("seed",)).save(tmp_path)
    with pytest.raises(UserError, match=r"is a search; continue it by giving its hydra\.sweeper\.study_name again\."):
        continued(read_line([resume]))


def test_beside_a_broken_checkpoint_an_earlier_one_is_named(tmp_path):
    small_run(tmp_path, "iterations=20", "checkpoint_every=5", "keep_checkpoints=2").fit()
    last = tmp_path / "checkpoints" / "last.pt"
    last.write_bytes(last.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"cannot be read as a checkpoint .*resume=\S+iteration_0000000\d\d\.pt\.$"):
        small_run(tmp_path, "iterations=40", checkpoint=last)
    last.unlink()
    with pytest.raises(UserError, match=r"has no last\.pt: .*resume=\S+iteration_0000000\d\d\.pt\.$"):
        find_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '{"jobs": 3}', '{"overrides": "ab", "differing": [], "jobs": [["a"]]}', "[" * 100_000]
)
def test_a_broken_record_of_a_sweep_is_one_sentence(content, tmp_path):
    (tmp_path / "sweep.json").write_text(content)
    with pytest.raises(UserError, match="holds no sweep"):
        continued(read_line(["-m", f"sweep.resume={tmp_path}"]))


def test_a_table_is_made_whatever_the_summaries_say(tmp_path):
    Sweep(("seed=0,1,2",), ("seed",), tuple((f"seed={seed}",) for seed in range(3))).save(tmp_path)
    odd = {"job": [], "state": ["x"], "wall_s": "long", "overrides": 3, "error": {"a": 1}, "last": 4}
    for number, summary in enumerate((odd, [], "[" * 100_000)):
        (tmp_path / f"{number}_run").mkdir()
        (tmp_path / f"{number}_run" / "summary.json").write_text(summary if isinstance(summary, str) else json.dumps(summary))
        (tmp_path / f"{number}_run" / "metrics.jsonl").write_bytes(b'{"progress/iteration": 1, "loss/d": [1]}\n\xff\n')
    found = Results.read(tmp_path)
    assert [found.settings(run) for run in found.jobs.values()] == [{"seed": str(seed)} for seed in range(3)]
    assert found.table().count("\n") >= 3


def test_lines_that_are_not_rows_are_dropped_and_counted(tmp_path, caplog):
    run = small_run(tmp_path, "iterations=20")
    run.loggers.append(Interrupting(11))
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    path = tmp_path / "metrics.jsonl"
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, b"\xff\xfe\n", b'{"progress/iteration": 1%s}\n' % (b"0" * 400), *rest]))
    (tmp_path / ".17.unfinished").touch()
    (tmp_path / "checkpoints" / "last.17.unfinished").touch()
    small_run(tmp_path, "iterations=20", checkpoint=find_checkpoint(str(tmp_path))).fit()
    assert [row["progress/iteration"] for row in rows(tmp_path)] == [0, 4, 7, 8, 12, 14, 16, 20]
    assert "since they are not rows: 2 of its lines" in caplog.text
    assert not list(tmp_path.rglob("*.unfinished"))


def test_a_run_whose_minutes_are_over_needs_more_of_them(tmp_path):
    summary = small_run(tmp_path, "iterations=2000", "minutes=0.001").fit()
    assert summary["iteration"] < 2000
    checkpoint = find_checkpoint(str(tmp_path))
    with pytest.raises(UserError, match=r"minutes=0\.001.*minutes=null"):
        small_run(tmp_path, "iterations=2000", "minutes=0.001", checkpoint=checkpoint)
    more = f"iterations={summary['iteration'] + 2}"
    assert small_run(tmp_path, more, "minutes=null", checkpoint=checkpoint).fit()["iteration"] == summary["iteration"] + 2


def test_a_run_that_was_killed_before_its_end_was_written_is_finished(tmp_path):
    small_run(tmp_path, "iterations=20").fit()
    whole, kept = json.loads((tmp_path / "summary.json").read_text()), (tmp_path / "metrics.jsonl").read_bytes()
    checkpoint = find_checkpoint(str(tmp_path))
    with pytest.raises(UserError, match="has finished its 20 iterations"):
        small_run(tmp_path, "iterations=20", checkpoint=checkpoint)
    with pytest.raises(UserError, match=r"has finished its 20 iterations.*iterations=40"):
        small_run(tmp_path, "iterations=15", checkpoint=checkpoint)
    (tmp_path / "summary.json").unlink()
    small_run(tmp_path, "iterations=20", checkpoint=checkpoint).fit()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (tmp_path / "metrics.jsonl").read_bytes() == kept
    assert (summary["state"], summary["iteration"]) == ("finished", 20)
    assert summary["last"]["loss/d"] == whole["last"]["loss/d"]


def test_fewer_iterations_than_an_interrupted_run_has_made_are_refused_with_what_it_still_wants(tmp_path):
    run = small_run(tmp_path, "iterations=20")
    run.loggers.append(Interrupting(9))
    with pytest.raises(KeyboardInterrupt):
        run.fit()
    with pytest.raises(
        UserError, match=r"has made 9 iterations, and iterations=4 asks for no more: leave iterations out to go on to 20"
    ):
        small_run(tmp_path, "iterations=4", checkpoint=find_checkpoint(str(tmp_path)))


def test_auto_finds_the_newest_unfinished_run_of_the_same_configuration(tmp_path, caplog):
    for name, iterations in {"old": 4, "new": 5, "longer": 9, "other": 5, "finished": 3}.items():
        run = small_run(tmp_path / name, *["batch_size=4"] * (name == "other"), f"iterations={99 if name != 'finished' else 3}")
        run.loggers.append(Interrupting(iterations))
        with nullcontext() if name == "finished" else pytest.raises(KeyboardInterrupt):
            run.fit()
    values = small_run(None, "iterations=9").checkpoints.described["config"]
    checkpoint = newest_unfinished(values, tmp_path)
    assert checkpoint == tmp_path / "new" / "checkpoints" / "last.pt"
    (tmp_path / "new" / "summary.json").unlink()  # as a kill leaves it
    assert newest_unfinished(values, tmp_path) == checkpoint
    assert newest_unfinished(values | {"seed": 4}, tmp_path) is None
    with caplog.at_level("INFO"):
        small_run(tmp_path / "new", "iterations=9", checkpoint=checkpoint).fit()
    assert re.fullmatch(r"Training in .*/new, on cpu.*, going on at iteration 3\.", caplog.messages[0])


def test_what_automatic_resuming_has_found_is_said_with_what_differs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    now = plain(composed())
    assert "resume=outputs" not in found_by_auto(now, Path("outputs"), None)
    run_folder(Path("outputs/a"), "loss=hinge", "optimizer.lr=0.25")
    run_folder(Path("outputs/b"), "generator=mlp", "strategy=joint", "seed=7")
    for name, age in (("a", 10), ("b", 20)):
        os.utime(f"outputs/{name}/checkpoints/last.pt", (age, age))
    said = found_by_auto(now, Path("outputs"), newest_unfinished(now, Path("outputs")))
    assert "resume=outputs/b, has" in said
    for one in ("strategy=joint and not detach", "generator=mlp and not dcgan", "seed=7 and not 0"):
        assert one in said
    assert "loss=" not in said
    assert "_target_" not in said
    os.symlink("b", "outputs/latest")
    assert "resume=outputs/b, has" in found_by_auto(now, Path("outputs"), None)  # latest is the new run's when this is read
    same = plain(composed("loss=hinge", "optimizer.lr=0.25"))
    assert "goes on with outputs/a." in found_by_auto(same, Path("outputs"), newest_unfinished(same, Path("outputs")))
    (tmp_path / "outputs/b/summary.json").write_text('{"state": "finished"}')
    assert "resume=outputs/a, has loss=hinge" in found_by_auto(now, Path("outputs"), None)


def test_places_are_named_by_way_of_latest_where_it_leads_there(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "samples").mkdir(parents=True)
    (tmp_path / "latest").symlink_to("b")
    assert by_latest(tmp_path / "b") == tmp_path / "latest"
    assert by_latest(tmp_path / "b" / "samples" / "1.png") == tmp_path / "latest" / "samples" / "1.png"
    assert by_latest(tmp_path / "a" / "samples") == tmp_path / "a" / "samples"
