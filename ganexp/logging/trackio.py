"""Trackio: rows and grids of samples in a local database, with a dashboard of its own and no account."""

import importlib.util
import io
import logging
import secrets
import sqlite3
from contextlib import closing, redirect_stdout
from contextvars import copy_context
from pathlib import Path
from typing import Any

from ganexp.facts import Facts, Misfit
from ganexp.logging.base import Logger, Picture, Row, RunDescription, Summary, with_pictures
from ganexp.logging.layout import RunFolder
from ganexp.ranges import checked

log = logging.getLogger(__name__)


class TrackioLogger(Logger):
    """One Trackio run, in the database of its project, which `trackio show` shows.

    The database lies in the folder `TRACKIO_DIR`, by default `~/.cache/huggingface/trackio`. The step of every value is the
    iteration. Trackio writes in a thread, twice a second, and opens no port. Rows stay on this machine unless
    `TRACKIO_SPACE_ID` or `TRACKIO_SERVER_URL` is set; where a Hugging Face token is stored, Trackio asks for its owner's name.

    A run that is resumed goes on in its Trackio run. After a resume or a rollback, the rows of later iterations are dropped; a
    Space or a server keeps them beside the new ones. If the database cannot be written any more, Trackio warns once, and
    training goes on without it.

    Args:
        project: What `trackio show --project` takes.
        group: A name that runs share; that of the sweep if it is None.
        name: The run's name, to which four digits are added, since Trackio finds runs by their names.
    """

    @checked
    def __init__(self, *, project: str = "ganexp", group: str | None = None, name: str | None = None) -> None:
        self._project, self._group, self._name = project, group, name

    def check(self, run: Facts) -> None:
        if importlib.util.find_spec("trackio") is None:
            raise Misfit('needs the package trackio, which is missing: pip install "ganexp[trackio]", or leave it out')

    def open(self, run: RunDescription) -> None:
        """Begin the Trackio run, or continue that of a resumed run; one that gets the logger late begins with earlier rows."""
        known = run.before.trackio_run if run.before else None
        label = " ".join(filter(None, [self._name, run.label])) or run.name
        self._settings: dict[str, Any] = {
            "project": self._project,
            "group": self._group or run.group or None,
            "name": known or f"{label}-{secrets.token_hex(2)}",
            "config": run.config,
        }
        self._database().parent.mkdir(parents=True, exist_ok=True)  # Trackio itself only warns of what it cannot write
        try:
            self._begin()
        except Exception as error:  # what Trackio raises has no common type
            raise Misfit(f"cannot begin a run ({str(error).splitlines()[0].rstrip('.')})") from error
        RunFolder(run.folder).trackio_run.write_text(f"{self._settings['name']}\n", encoding="utf-8")
        written = {step for (step,) in self._in_database("SELECT step FROM metrics WHERE run_name = ?")}
        reached = 0 if self.run._is_local else self.run._next_step  # a Space or a server tells its last step alone
        for row in run.before.rows if run.before else ():  # a killed process has taken along what was not written yet
            if row["progress/iteration"] not in written and row["progress/iteration"] >= reached:
                self.write(with_pictures(row, run.folder))

    def write(self, row: Row) -> None:
        import trackio

        values = {key: trackio.Image(x.image) if isinstance(x, Picture) else x for key, x in row.items()}
        self.run.log(values, step=int(values["progress/iteration"]))

    def rewind(self, iteration: int) -> Row:
        self._end()
        self._in_database("DELETE FROM metrics WHERE run_name = ? AND step > ?", iteration)
        self._begin()
        return {}

    def close(self, summary: Summary) -> None:
        self._end()
        summary["paths"]["Trackio"] = f"trackio show --project {self._project}"

    def _begin(self) -> None:
        """Begin a run without Trackio's messages, in a context of its own: within one, Trackio ends the run before."""
        import trackio

        with redirect_stdout(io.StringIO()):
            self.run = copy_context().run(
                trackio.init, **self._settings, resume="allow", embed=False, auto_log_gpu=False, auto_log_cpu=False
            )

    def _end(self) -> None:
        with redirect_stdout(io.StringIO()):
            self.run.finish()

    def _database(self) -> Path:
        from trackio.sqlite_storage import SQLiteStorage

        return Path(SQLiteStorage.get_project_db_path(self._project))

    def _in_database(self, query: str, *values: int) -> list[tuple[int]]:
        """Query the run's rows, in the table that Trackio's documentation describes."""
        try:
            with closing(sqlite3.connect(self._database(), timeout=30)) as database, database:
                return database.execute(query, (self._settings["name"], *values)).fetchall()
        except sqlite3.Error as error:
            if "no such table" in str(error):
                return []  # nothing has been written to this project yet
            log.warning("Trackio's rows of a resumed run cannot be compared with the run's (%s).", error)
            return []
