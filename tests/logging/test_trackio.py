"""What Trackio's database holds of a run, read by sqlite3."""

import json
import logging
import os
import sqlite3
import sys
import traceback
from contextlib import closing

import numpy as np
import psutil
import pytest
from PIL import Image

from ganexp import build
from ganexp.facts import UserError
from ganexp.logging import RunDescription, TrackioLogger
from ganexp.logging.reading import read
from tests.composing import composed
from tests.processes import reaped
from tests.small_runs import SMALL, trained

WITH = [*SMALL, "logger=[trackio]", "iterations=9", "log_every=2", "sample_every=3"]


def a_child(function, home, **environment):
    """Run a function in a forked process in which Trackio, which reads its variables once, writes below `home`."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert "trackio" not in sys.modules
            os.environ |= {"TRACKIO_DIR": f"{home}/db", "HF_HOME": f"{home}/hf", "HOME": str(home)} | environment
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert reaped([child]) == {child: 0}


def table(home, query):
    with closing(sqlite3.connect(home / "db" / "ganexp.db")) as database:
        return database.execute(query).fetchall()


def shown(home):
    """Return the rows of a database with one run, and its name."""
    entries = table(home, "SELECT run_name, step, metrics FROM metrics ORDER BY step, id")
    rows = [json.loads(metrics) for _, _, metrics in entries]
    assert [row["progress/iteration"] for row in rows] == [step for _, step, _ in entries]
    (name,) = {name for name, _, _ in entries}
    return rows, name


def expected(folder, rows):
    """Check that rows are those of a run folder, and that their pictures are its files."""
    kept = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row.keys() for row in rows] == [row.keys() for row in kept]
    for row, own in zip(rows, kept, strict=True):
        for key, value in own.items():
            if isinstance(value, str):
                row[key] = (folder.parent / "db" / "media" / row[key]["file_path"], folder / value)
                for path, other in [row.pop(key)]:
                    with Image.open(path) as picture, Image.open(other) as original:
                        np.testing.assert_array_equal(np.asarray(picture)[..., :3], np.asarray(original))
            else:
                assert row[key] == value
    return True


def test_rows_and_grids_are_those_of_the_run_and_nothing_listens(tmp_path):
    def run():
        opened = []
        whole = TrackioLogger.write

        def write(self, row):
            whole(self, row)
            opened.extend(psutil.Process().net_connections("inet"))

        TrackioLogger.write = write
        logging.getLogger("ganexp.logging.trackio").warning = lambda sentence, *_: pytest.fail(sentence)
        summary = build(composed(*WITH), tmp_path / "run").fit()
        assert summary["paths"]["Trackio"] == "trackio show --project ganexp"
        assert opened == []

    a_child(run, tmp_path)
    rows, name = shown(tmp_path)
    assert expected(tmp_path / "run", rows)
    assert name == (tmp_path / "run" / "trackio_run").read_text().strip()
    ((config,),) = table(tmp_path, "SELECT config FROM configs")
    assert json.loads(config)["prior"] == composed(*WITH).prior
    assert table(tmp_path, "SELECT * FROM system_metrics") == []


@pytest.mark.parametrize("lost", ["step = 2", "step <= 4", "TRUE"])
def test_a_resumed_run_goes_on_in_its_own_and_shows_each_iteration_once(lost, tmp_path):
    folder = tmp_path / "run"

    def stopped():
        trained(folder, WITH, 9, stop_after=5)
        logger = TrackioLogger()  # as a run that is killed has written rows after its last checkpoint, and lost earlier ones
        logger.open(RunDescription(folder, before=read(folder)))
        logger.write({"progress/iteration": 8, "loss/d": 1e9})
        logger.close({"paths": {}})

    a_child(stopped, tmp_path)
    with closing(sqlite3.connect(tmp_path / "db" / "ganexp.db")) as database, database:
        database.execute(f"DELETE FROM metrics WHERE {lost}")
    before = (folder / "trackio_run").read_text().strip()
    a_child(lambda: trained(folder, WITH, 9, resume=True), tmp_path)
    rows, name = shown(tmp_path)
    assert name == before
    assert expected(folder, rows)


def test_a_run_that_gets_the_logger_late_shows_earlier_rows_too(tmp_path):
    folder = tmp_path / "run"
    build(composed(*WITH, "logger=[]", "iterations=6"), folder).fit()
    a_child(lambda: build(composed(*WITH), folder, checkpoint=folder / "checkpoints" / "last.pt").fit(), tmp_path)
    assert expected(folder, shown(tmp_path)[0])


def test_runs_of_one_process_are_apart_even_side_by_side(tmp_path):
    def both():
        loggers = [TrackioLogger(name="same") for _ in range(2)]
        for number, logger in enumerate(loggers):
            (tmp_path / f"{number}").mkdir()
            logger.open(RunDescription(tmp_path / f"{number}", group="sweep", config={"seed": number}))
        for iteration in range(3):
            for number, logger in enumerate(loggers):
                logger.write({"progress/iteration": iteration, "loss/d": float(number)})
        for logger in loggers:
            logger.close({"paths": {}})

    a_child(both, tmp_path)
    entries = table(tmp_path, "SELECT run_name, step, metrics FROM metrics ORDER BY run_name, step")
    names = [(tmp_path / f"{number}" / "trackio_run").read_text().strip() for number in range(2)]
    assert len({*names}) == 2
    for number, name in enumerate(names):
        values = [(step, json.loads(metrics)["loss/d"]) for run, step, metrics in entries if run == name]
        assert values == [(step, number) for step in range(3)]
    groups = {json.loads(config)["_Group"] for (config,) in table(tmp_path, "SELECT config FROM configs")}
    assert groups == {"sweep"}


def test_where_it_cannot_write_it_is_refused(tmp_path):
    (tmp_path / "db").write_text("a file")

    def run():
        with pytest.raises(UserError, match=r"logger\.trackio "):
            build(composed(*WITH), tmp_path / "run").fit()

    a_child(run, tmp_path)


def test_without_the_package_it_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(UserError, match=r"logger\.trackio .*ganexp\[trackio\]"):
        build(composed(*WITH), tmp_path / "run")
    assert not (tmp_path / "run").exists()
