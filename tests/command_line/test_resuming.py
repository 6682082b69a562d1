"""Finding what to go on with, whatever it is called and whatever has become of its files."""

import json

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from ganexp.command_line.recorded import config_options, record_command
from ganexp.command_line.resuming import expand_resume, find_checkpoint, quoted
from ganexp.command_line.sweeping import Sweep, results, table
from ganexp.configuration.schema import ConfigError
from ganexp.runs import FolderBook
from ganexp.runs.lock import is_locked, lock, unlock
from tests.training.test_resume import overrides, rows, trained


@given(st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="$"), min_size=1))
def test_hydra_reads_a_quoted_value_back(value):
    assert OverridesParser.create().parse_override(quoted("resume", value)).value() == value


def begun(folder, recorded=("loss=hinge", "seed=3"), places=()):
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.pt").touch()
    record_command(folder, [*recorded, "resume=before"], places)
    return folder


def test_the_command_of_a_run_comes_back_with_its_places_and_without_what_is_not_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    given = config_options(["-cd", "mine", "loss=hinge", "--config-name=other"])
    assert given == (["--config-dir", str(tmp_path / "mine"), "--config-name", "other"], ["loss=hinge"])
    begun(tmp_path / "run (1), {x}='ü'", ["loss=hinge", "seed=3", "hydra.callbacks.x._target_=os.system"], given[0])
    again = expand_resume(["resume=run (1), {x}='ü'", "seed=4", "-cd", "mine", "-cn", "other"])
    assert again == [
        *given[0], "loss=hinge", "seed=4", "trust=[]", "resume='run (1), {x}=\\'ü\\'/checkpoints/last.pt'"
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=rf"started with --config-dir {tmp_path}/mine --config-name other: add that, if"):
        expand_resume(["resume=run (1), {x}='ü'"])  # a folder may be anyone's, and configurations can name code


def test_a_link_is_followed_and_one_to_itself_is_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun(tmp_path / "outputs" / "run")
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


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"a: [", b"- 1", b"3", b"[[[[", None, b"? !!python/object:os.x {}"]
)
def test_a_broken_record_is_one_sentence(content, tmp_path):
    folder = begun(tmp_path / "run")
    (folder / "command.json").write_bytes(content or b"[")
    (folder / ".hydra").mkdir()
    if content is not None:
        (folder / ".hydra" / "overrides.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"overrides\.yaml") as told:
        expand_resume([f"resume={folder}"])
    assert len(str(told.value).splitlines()) == 1


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
    assert [job["settings"] for job in results(tmp_path)] == [{"seed": str(seed)} for seed in range(3)]
    assert table(tmp_path).count("\n") >= 3


def test_rows_that_are_no_text_are_left_out_and_counted(tmp_path, caplog):
    settings = overrides("detach")
    trained(tmp_path, settings, 20, stop_after=11)
    path = tmp_path / "metrics.jsonl"
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([first, b"\xff\xfe\n", *rest]))
    (tmp_path / ".17.unfinished").touch()
    (tmp_path / "checkpoints" / "last.17.unfinished").touch()
    trained(tmp_path, settings, 20, resume=True)
    assert [row["progress/iteration"] for row in rows(tmp_path)] == [4, 7, 8, 12, 14, 16, 20]
    assert "1 lines of" in caplog.text or "1 line of" in caplog.text
    assert not list(tmp_path.rglob("*.unfinished"))


def test_a_run_that_was_killed_before_its_end_was_written_is_finished(tmp_path):
    settings = overrides("detach")
    trained(tmp_path, settings, 20)
    whole, kept = json.loads((tmp_path / "summary.json").read_text()), (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="has all of its 20 iterations"):
        trained(tmp_path, settings, 20, resume=True)
    (tmp_path / "summary.json").unlink()
    trained(tmp_path, settings, 20, resume=True)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (tmp_path / "metrics.jsonl").read_bytes() == kept
    assert (summary["state"], summary["iteration"]) == ("finished", 20)
    assert summary["last"]["loss/d"] == whole["last"]["loss/d"]


def test_a_folder_is_one_process_s_own_until_its_book_is_closed(tmp_path):
    folder = tmp_path / "run"
    lock(folder)
    assert is_locked(folder)
    book = FolderBook(folder)
    with pytest.raises(FileExistsError, match="another process"):
        lock(folder)
    book.close("finished")
    assert not is_locked(folder)
    lock(folder)
    unlock(folder)
    assert not is_locked(folder)
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / ".lock").mkdir()
    with pytest.raises(OSError, match=r"\.lock"):
        lock(tmp_path / "closed")
