"""TensorBoard: rows as scalars, grids of samples and the spectrum of the game as images."""

import importlib.util
import json
import logging
import os
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ganexp.facts import Facts, Misfit
from ganexp.logging.base import Logger, Picture, Row, RunDescription, Summary, with_pictures
from ganexp.logging.keys import eigenvalues_in
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import RecordedRun
from ganexp.ranges import checked

log = logging.getLogger(__name__)


class TensorBoardLogger(Logger):
    """Writes event files, by default in each run's own folder, so that `tensorboard --logdir outputs` shows every run.

    The step of every value is the iteration. Each row is on disk once it is written. After a resume or a rollback, TensorBoard
    shows the new rows in place of the old rows of later iterations. A run that is resumed also writes the rows that its files
    lack, so one that gets the logger late shows all. If the files cannot be written, training goes on without them.

    Args:
        directory: Where event files go, each run's in a folder with the name of its run folder, below one with the name of
            that one's parent, such as its sweep; if None, they go into the run folder.
    """

    @checked
    def __init__(self, *, directory: str | None = None) -> None:
        self._directory = directory

    def check(self, run: Facts) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise Misfit('needs the package tensorboard, which is missing: pip install "ganexp[tensorboard]", or leave it out')

    def open(self, run: RunDescription) -> None:
        """Begin an event file, with the configuration as a text."""
        own = RunFolder(run.folder).tensorboard
        self.place = Path(self._directory, *run.folder.absolute().parts[-2:]) if self._directory else own
        self._shown = self._directory or run.folder
        self._broken = False
        missing = self._missing(run.before) if run.before else []
        self._begin(purge_step=missing[0]["progress/iteration"] if missing else None)
        from torch.utils.tensorboard import summary

        text = json.dumps(run.config, indent=2, default=str).replace("\n", "\n    ")
        self._put(summary=summary.text("configuration", f"    {text}"))  # indented: in Markdown, text that is shown as it is
        self._holds_rows = bool(run.before and run.before.rows)
        for row in missing:
            self.write(with_pictures(row, run.folder))

    def write(self, row: Row) -> None:
        if self._broken:
            return
        self._holds_rows = True
        try:
            self._write(row)
        except Exception as error:  # a full disk
            self._give_up(error)

    def rewind(self, iteration: int) -> Row:
        if self._holds_rows and not self._broken:
            try:
                self._close()
                self._begin(purge_step=iteration + 1)
            except Exception as error:  # as above
                self._give_up(error)
        return {}

    def close(self, summary: Summary) -> None:
        self._close()
        summary["paths"]["TensorBoard"] = f"tensorboard --logdir {shlex.quote(str(self._shown))}"

    def _begin(self, purge_step: int | None = None) -> None:
        """Begin an event file. `SummaryWriter` would write it in a thread, which prints a traceback when the disk is full."""
        from tensorboard.compat.proto.event_pb2 import SessionLog  # an optional package
        from tensorboard.summary.writer.record_writer import RecordWriter

        self.place.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{os.getpid()}"  # TensorBoard reads files in the order of their names
        self._records = RecordWriter((self.place / name).open("xb"))
        self._put(file_version="brain.Event:2")
        if purge_step is not None:
            self._put(step=purge_step, session_log=SessionLog(status=SessionLog.START))

    def _close(self) -> None:
        with suppress(OSError):  # what could not be written; the log has said so
            self._records.close()

    def _put(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
        self._records.flush()

    def _give_up(self, error: Exception) -> None:
        self._broken = True
        log.warning("TensorBoard's files cannot be written (%s); further rows are in the run folder only.", error)

    def _write(self, row: Row) -> None:
        from torch.utils.tensorboard import summary

        pictures = {key: value.image for key, value in row.items() if isinstance(value, Picture)}
        numbers = {key: value for key, value in row.items() if not isinstance(value, Picture)}
        step = int(numbers["progress/iteration"])
        for key, value in numbers.items():
            self._put(step=step, summary=summary.scalar(key, value))
        if eigenvalues := eigenvalues_in(row):
            from ganexp.logging.pictures import spectrum  # imports torch, which --help does not wait for

            pictures["dynamics/eigenvalues"] = spectrum(eigenvalues)
        for key, image in pictures.items():
            self._put(step=step, summary=summary.image(key, image, dataformats="HWC"))

    def _missing(self, before: RecordedRun) -> list[dict[str, Any]]:
        """Return the rows of a run from the first one that its event files lack, after a kill or a full disk."""
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

        written: dict[int, set[str]] = {}
        for path in sorted(self.place.glob("events.out.tfevents.*")):
            for event in LegacyEventFileLoader(str(path)).Load():
                if event.HasField("session_log"):
                    written = {step: keys for step, keys in written.items() if step < event.step}
                written.setdefault(event.step, set()).update(value.tag for value in event.summary.value)
        for number, row in enumerate(before.rows):
            kept = {key for key, value in row.items() if not isinstance(value, str) or (before.folder / value).is_file()}
            if not kept <= written.get(row["progress/iteration"], set()):
                return before.rows[number:]
        return []
