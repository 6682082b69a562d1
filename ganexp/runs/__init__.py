"""What a run leaves: logbooks, which rows and pictures go to, the run folder, and reading it back."""

from ganexp.runs.book import Book, Ending, Picture, Row, Summary
from ganexp.runs.folder import FolderBook
from ganexp.runs.progress import ProgressBook
from ganexp.runs.weights_and_biases import WandbBook

__all__ = ["Book", "Ending", "FolderBook", "Picture", "ProgressBook", "Row", "Summary", "WandbBook"]
