"""The run folder: whose it is, how it ends, and that its rows are whole."""

import json
import os
import shutil

import numpy as np
import pytest

from ganexp.documents import refuse_unwritable, unfinished_name, write_document
from ganexp.logging import FolderLogger, Picture, Summary
from ganexp.logging.layout import RunFolder
from ganexp.logging.lock import FolderLocked, is_locked, lock, unlock
from ganexp.logging.reading import find, is_run, read
from ganexp.logging.summary import amend_summary, read_summary
from tests.full import on_a_full_disk
from tests.small_runs import small_run


def ended(state="finished"):
    return Summary(state=state, iteration=1, wall_s=0.5, notes=[], paths={}, last={})


def test_what_a_run_leaves_is_read_back(tmp_path):
    folder = tmp_path / "run"
    logger = FolderLogger(folder, config={"seed": 3}, provenance={"git": None})
    logger.write({"progress/iteration": 1, "loss/d": 0.5})
    logger.close(summary := ended())
    place = RunFolder(folder)
    assert summary["paths"] == {"folder": str(folder), "rows": str(place.rows)}
    assert json.loads(place.provenance.read_text()) == {"git": None}
    run = read(folder)
    assert (run.state, run.config, run.last, run.problems) == (
        "finished",
        {"seed": 3},
        {"progress/iteration": 1, "loss/d": 0.5},
        [],
    )
    assert is_run(folder)
    assert find(tmp_path) == [folder]


def test_only_pictures_of_a_trained_generator_are_offered_as_the_result(tmp_path):
    for iterations, offered in (((0,), None), ((0, 5), "samples/5.png")):
        folder = tmp_path / str(len(iterations))
        logger = FolderLogger(folder)
        for iteration in iterations:
            picture = Picture(np.zeros((1, 1, 3), np.uint8), f"samples/{iteration}.png")
            logger.write({"progress/iteration": iteration, "samples": picture})
        logger.close(summary := ended())
        assert summary["paths"].get("samples") == (offered and str(folder / offered))


def test_a_sweep_completes_a_summary_or_writes_one_where_there_is_none(tmp_path):
    FolderLogger(tmp_path).close(ended())
    assert amend_summary(tmp_path, {"job": 2}) == read_summary(tmp_path)
    assert read_summary(tmp_path) == {**ended(), "paths": read_summary(tmp_path)["paths"], "job": 2}
    (tmp_path / "skipped").mkdir()
    amend_summary(tmp_path / "skipped", {"state": "skipped"})
    assert read_summary(tmp_path / "skipped") == {"state": "skipped"}


def test_a_run_that_goes_on_is_unfinished_until_it_has_ended_again(tmp_path):
    FolderLogger(tmp_path).close(ended())
    amend_summary(tmp_path, {"job": 2})
    going_on = FolderLogger(tmp_path, resumed=True)
    assert (read(tmp_path).state, read_summary(tmp_path)["job"]) == ("unfinished", 2)
    going_on.abandon()
    assert read(tmp_path).state == "finished"
    FolderLogger(tmp_path, resumed=True).close(ended("preempted"))
    assert read(tmp_path).state == "preempted"


def test_rows_of_another_run_are_not_mixed_with_new_ones(tmp_path):
    FolderLogger(tmp_path).close(ended())
    with pytest.raises(FileExistsError, match="rows of another run"):
        FolderLogger(tmp_path)
    assert not is_locked(tmp_path)
    FolderLogger(tmp_path, resumed=True).close(ended())


def test_a_run_that_could_not_begin_leaves_its_folder_free(tmp_path):
    FolderLogger(tmp_path).abandon()
    FolderLogger(tmp_path).close(ended())


def test_a_folder_belongs_to_one_process_until_its_book_is_closed(tmp_path):
    folder = tmp_path / "run"
    lock(folder)
    assert is_locked(folder)
    logger = FolderLogger(folder)
    with pytest.raises(FolderLocked, match="another process"):
        lock(folder)
    logger.close(ended())
    assert not is_locked(folder)
    lock(folder)
    unlock(folder)
    assert not is_locked(folder)
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / ".lock").mkdir()
    with pytest.raises(OSError, match=r"\.lock"):
        lock(tmp_path / "closed")


def fill_up(folder):
    logger = FolderLogger(folder)
    for iteration in range(100):
        try:
            logger.write({"progress/iteration": iteration})
        except OSError:
            break
    logger.close(ended("failed"))
    write_document(folder / "other.json", {"state": "failed"})
    with pytest.raises(OSError, match=r"File too large: '.*other\.json'"):
        write_document(folder / "other.json", {"state": "x" * 1000})
    assert json.loads((folder / "other.json").read_text()) == {"state": "failed"}


def test_a_row_that_does_not_fit_on_the_disk_is_left_out_whole(tmp_path):
    assert on_a_full_disk(fill_up, tmp_path, room=300) == "None"
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["progress/iteration"] for line in lines] == list(range(len(lines)))
    assert 5 < len(lines) < 100


def test_that_a_file_cannot_be_written_is_known_without_writing_it(tmp_path):
    (tmp_path / "file").touch()
    refuse_unwritable(tmp_path / "new" / "deep" / "x")
    refuse_unwritable(tmp_path / "file")
    for path, reason in {tmp_path: "Is a directory", tmp_path / "file" / "new" / "x": "Not a directory"}.items():
        with pytest.raises(OSError, match=reason) as refused:
            refuse_unwritable(path)
        assert refused.value.filename == str(path)
    assert on_a_full_disk(refuse_unwritable, tmp_path / "x") == f"OSError: [Errno 27] File too large: '{tmp_path / 'x'}'"
    assert [*tmp_path.iterdir()] == [tmp_path / "file"]


PLACES = [
    "samples",
    "checkpoints",
    "tensorboard",
    "trackio_run",
    "train.log",
    ".hydra",
    ".lock",
    "metrics.jsonl",
    "config.json",
    "samples/1.png",
]


@pytest.mark.parametrize("name", PLACES)
def test_nothing_is_written_through_a_link_that_leads_out_of_the_folder(name, tmp_path):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    FolderLogger(folder).close(ended())
    place = folder / name
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(outside)
    for there in (False, True):
        if there:
            outside.write_text("theirs")
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(OSError, match=r"a link there leads out of the folder: remove it") as refused:
            FolderLogger(folder, resumed=True)
        assert refused.value.filename == str(place)
        assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_links_within_the_folder_and_to_the_folder_are_followed(tmp_path):
    FolderLogger(tmp_path / "run").close(ended())
    (tmp_path / "run" / "pictures").mkdir()
    (tmp_path / "run" / "samples").symlink_to("pictures")
    (tmp_path / "latest").symlink_to("run")
    logger = FolderLogger(tmp_path / "latest", resumed=True)
    logger.write({"progress/iteration": 1})
    logger.close(ended())
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["metrics.jsonl", "train.log"])
def test_a_pipe_in_the_folder_is_not_waited_for(name, tmp_path):
    FolderLogger(tmp_path).close(ended())
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="neither a file nor a folder"):
        FolderLogger(tmp_path, resumed=True)


def test_a_link_of_the_name_of_an_unfinished_file_is_not_followed(tmp_path):
    (tmp_path / "theirs").write_text("as it was")
    unfinished_name(tmp_path / "x.json").symlink_to(tmp_path / "theirs")
    write_document(tmp_path / "x.json", {})
    assert (tmp_path / "theirs").read_text() == "as it was"
    assert json.loads((tmp_path / "x.json").read_text()) == {}


def test_what_links_lead_to_outside_of_the_folder_is_not_read(tmp_path):
    """A report of the run may be passed on."""
    FolderLogger(folder := tmp_path / "run", config={}, measures={}).close(ended())
    for name in ("config.json", "measures.json", "summary.json", "wandb_id", "trackio_run", "metrics.jsonl"):
        (tmp_path / name).write_text(
            '{"progress/iteration": 1, "state": "secret"}' if name not in ("wandb_id", "trackio_run") else "secret"
        )
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(tmp_path / name)
    run = read(folder)
    assert (run.config, run.summary, run.measures, run.rows, run.wandb_id, run.trackio_run) == ({}, {}, {}, [], None, None)
    assert len(run.problems) == 4


def test_rows_that_were_deleted_during_a_run_are_told_and_not_named(tmp_path):
    for gone in ("metrics.jsonl", ""):
        trainer = small_run(tmp_path / "run", "iterations=6")
        tick = trainer.loggers[0].tick

        def delete(tick=tick, trainer=trainer, path=tmp_path / "run" / gone):
            tick()
            if trainer.iteration == 5:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

        trainer.loggers[0].tick = delete
        summary = trainer.fit()
        assert "rows" not in summary["paths"]
        assert any("metrics.jsonl was deleted while the run wrote to it" in note for note in summary["notes"])
        shutil.rmtree(tmp_path / "run")
