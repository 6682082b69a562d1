"""Logbooks: where measurements and pictures go. All are written to by the same few methods."""

from ganexp.logbook.book import Book, Picture, Row, State
from ganexp.logbook.folder import FolderBook
from ganexp.logbook.progress import ProgressBook
from ganexp.logbook.weights_and_biases import WandbBook

__all__ = ["Book", "FolderBook", "Picture", "ProgressBook", "Row", "State", "WandbBook"]
