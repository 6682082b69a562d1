"""Progress as a person sees it: a bar on a terminal, lines elsewhere."""

import logging
import sys

from tqdm import tqdm

from ganexp.runs.book import Book, Row, Summary

log = logging.getLogger(__name__)


class ProgressBook(Book):
    """Shows losses and images per second: beside a bar on a terminal, and where there is none as a line per row in the log."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self._on_terminal = sys.stderr.isatty()
        self._bar = tqdm(total=iterations, unit="it", disable=not self._on_terminal, dynamic_ncols=True)

    def tick(self) -> None:
        self._bar.update()

    def write(self, row: Row) -> None:
        if "loss/d" not in row:
            return
        shown = {"D": row["loss/d"], "G": row["loss/g"]}
        if "began/k_t" in row:
            shown["k_t"] = row["began/k_t"]
        text = "  ".join(f"{key} {value:.3f}" for key, value in shown.items())
        text += f"  {row['speed/images_per_s']:,.0f} images/s"
        if self._on_terminal:
            self._bar.set_postfix_str(text)
        else:
            log.info("%s/%s  %s", f"{row['progress/iteration']:,}", f"{self.iterations:,}", text)

    def rewind(self, iteration: int) -> Row:
        self._bar.n = iteration
        self._bar.refresh()
        return {}

    def close(self, summary: Summary) -> None:
        self._bar.close()
