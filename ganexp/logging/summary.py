"""The file `summary.json`, with the end of a run: written when its loggers close, and completed by its sweep."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ganexp.documents import write_document
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import read_document

log = logging.getLogger(__name__)


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the summary of a run; empty if there is none yet, or it is broken."""
    return read_document(RunFolder(folder).summary)


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary of a run; a write error is only logged, so that it does not hide the run's own."""
    try:
        write_document(RunFolder(folder).summary, summary)
    except OSError as error:
        log.error("No summary.json: %s.", error)


def amend_summary(folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Add facts from outside a run, such as its sweep's, to its summary, which may not exist yet, and return the summary."""
    summary = {**read_summary(folder), **facts}
    write_summary(folder, summary)
    return summary
