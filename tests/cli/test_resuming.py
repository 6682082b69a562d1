"""Finding what is to be resumed, whatever it is called and whatever has happened to its files."""

import json
import re
from contextlib import nullcontext

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from ganexp.cli.recorded import config_options, record_command
from ganexp.cli.resuming import expand_resume, find_checkpoint, newest_unfinished, quoted
from ganexp.cli.sweeping import Results, Sweep
from ganexp.config.schema import ConfigError
from tests.small_runs import Interrupting, rows, small_run


@settings(deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1) | st.text("\\${}a'", min_size=1))
def test_hydra_reads_a_quoted_value_back(value):
    override = OverridesParser.create().parse_override(quoted("resume", value))
    assert OmegaConf.create({"resume": override.value()}).resume == value


def recorded_run(folder, overrides=("loss=hinge", "seed=3"), options=()):
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.pt").touch()
    record_command(folder, [*overrides, "resume=before"], options)
    return folder


def test_the_command_of_a_run_comes_back_with_its_places_and_without_what_is_not_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    given = config_options(["-cd", "mine", "loss=hinge", "--config-name=other"])
    assert given == (["--config-dir", str(tmp_path / "mine"), "--config-name", "other"], ["loss=hinge"])
    recorded_run(tmp_path / "run (1), {x}='ü'", ["loss=hinge", "seed=3", "hydra.callbacks.x._target_=os.system"], given[0])
    again = expand_resume(["resume=run (1), {x}='ü'", "seed=4", "-cd", "mine", "-cn", "other"])
    assert again == [
        *given[0], "loss=hinge", "trust=[]", "resume='run (1), {x}=\\'ü\\'/checkpoints/last.pt'", "seed=4"
    ]  # fmt: skip
    job = expand_resume(["--cfg", "job", "resume=run (1), {x}='ü'", "seed=4", "-cd", "mine", "-cn", "other"])
    assert job == [*given[0], "--cfg", "job", *again[len(given[0]) :]]
    with pytest.raises(ConfigError, match=rf"started with --config-dir {tmp_path}/mine --config-name other: add that, if"):
        expand_resume(["resume=run (1), {x}='ü'"])  # a folder may be anyone's, and configurations can name code


def test_a_link_is_followed_and_one_to_itself_is_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded_run(tmp_path / "outputs" / "run")
    (tmp_path / "outputs" / "latest").symlink_to("run")
    assert str(find_checkpoint("outputs/latest")) == "outputs/run/checkpoints/last.pt"
    assert str(find_checkpoint("'outputs/latest'")) == "outputs/run/checkpoints/last.pt"  # as Hydra wants it quoted
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "sweep").mkdir()
    Sweep((), ()).save(tmp_path / "sweep")
    for name, sentence in {"loop": "has no checkpoint", "x" * 5000: "has no checkpoint", "sweep": "sweep.resume=sweep"}.items():
        with pytest.raises(ConfigError, match=sentence):
            find_checkpoint(name)
    with pytest.raises(ConfigError, match="holds no sweep"):
        expand_resume(["-m", "sweep.resume=loop"])


def test_of_two_folders_the_last_is_meant_and_a_run_stays_in_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded_run(tmp_path / "run")
    assert expand_resume(["resume=nowhere", "resume=run"])[-1] == "resume='run/checkpoints/last.pt'"
    with pytest.raises(ConfigError, match=r"leave out hydra\.run\.dir"):
        expand_resume(["resume=run", "hydra.run.dir=outputs/other"])


def test_a_sweep_goes_on_with_the_last_value_of_each_key(tmp_path):
    Sweep(("iterations=20", "iterations=30", "seed=0,1"), ("seed",), (("seed=0",), ("seed=1",))).save(tmp_path)
    assert "iterations=30" in expand_resume(["-m", f"sweep.resume={tmp_path}", "iterations=30"])
    with pytest.raises(ConfigError, match="leave out iterations=20"):
        expand_resume(["-m", f"sweep.resume={tmp_path}", "iterations=20"])


def test_beside_a_broken_checkpoint_an_earlier_one_is_named(tmp_path):
    small_run(tmp_path, "iterations=20", "checkpoint_every=5", "keep_checkpoints=2").fit()
    last = tmp_path / "checkpoints" / "last.pt"
    last.write_bytes(last.read_bytes()[:5000])
    with pytest.raises(ConfigError, match=r"cannot be read as a checkpoint .*resume=\S+iteration_0000000\d\d\.pt\.$"):
        small_run(tmp_path, "iterations=40", checkpoint=last)
    last.unlink()
    with pytest.raises(ConfigError, match=r"has no last\.pt: .*resume=\S+iteration_0000000\d\d\.pt\.$"):
        find_checkpoint(str(tmp_path))


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '{"jobs": 3}', '{"overrides": "ab", "differing": [], "jobs": [["a"]]}', "[" * 100_000]
)
def test_a_broken_record_of_a_sweep_is_one_sentence(content, tmp_path):
    (tmp_path / "sweep.json").write_text(content)
    with pytest.raises(ConfigError, match="holds no sweep"):
        expand_resume(["-m", f"sweep.resume={tmp_path}"])


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


def test_a_run_that_was_killed_before_its_end_was_written_is_finished(tmp_path):
    small_run(tmp_path, "iterations=20").fit()
    whole, kept = json.loads((tmp_path / "summary.json").read_text()), (tmp_path / "metrics.jsonl").read_bytes()
    checkpoint = find_checkpoint(str(tmp_path))
    with pytest.raises(ConfigError, match="has all of its 20 iterations"):
        small_run(tmp_path, "iterations=20", checkpoint=checkpoint)
    (tmp_path / "summary.json").unlink()
    small_run(tmp_path, "iterations=20", checkpoint=checkpoint).fit()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (tmp_path / "metrics.jsonl").read_bytes() == kept
    assert (summary["state"], summary["iteration"]) == ("finished", 20)
    assert summary["last"]["loss/d"] == whole["last"]["loss/d"]


def test_auto_finds_the_newest_unfinished_run_of_the_same_configuration(tmp_path, caplog):
    for name, iterations in {"old": 4, "new": 5, "longer": 9, "other": 5, "finished": 3}.items():
        run = small_run(tmp_path / name, *["batch_size=4"] * (name == "other"), f"iterations={99 if name != 'finished' else 3}")
        run.loggers.append(Interrupting(iterations))
        with nullcontext() if name == "finished" else pytest.raises(KeyboardInterrupt):
            run.fit()
    values = small_run(None, "iterations=9").checkpoints.config
    checkpoint = newest_unfinished(values, tmp_path)
    assert checkpoint == tmp_path / "new" / "checkpoints" / "last.pt"
    (tmp_path / "new" / "summary.json").unlink()  # as a kill leaves it
    assert newest_unfinished(values, tmp_path) == checkpoint
    assert newest_unfinished(values | {"seed": 4}, tmp_path) is None
    with caplog.at_level("INFO"):
        small_run(tmp_path / "new", "iterations=9", checkpoint=checkpoint).fit()
    assert re.fullmatch(r"Training in .*/new, on cpu.*, going on at iteration 3\.", caplog.messages[0])
