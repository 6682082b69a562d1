"""Progress of a run: a bar on a terminal, lines elsewhere, and on both a line for each evaluation."""

import logging
import sys
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from tqdm import tqdm

from ganexp.instruments.scalar import Scalar
from ganexp.logging.base import Logger, Row, Summary
from ganexp.logging.keys import known
from ganexp.logging.meanings import shared

log = logging.getLogger(__name__)


tqdm.set_lock(threading.RLock())  # all forked processes share tqdm's own lock, which a killed one would hold for ever


class ProgressLogger(Logger):
    """Shows losses and images per second: beside a bar on a terminal, elsewhere as one line of the log per row.

    A line says, as the bar does, how much time is left, without that of evaluations and samples. Of `measures`, what the run
    measures by itself and by its evaluation, those with a label are shown too.
    """

    def __init__(self, iterations: int, measures: Mapping[str, Scalar] = MappingProxyType({})) -> None:
        self.iterations = iterations
        self._labels = {key: measure.label for key, measure in known(measures).items() if measure.label}
        self._figures = {key: measure for key, measure in measures.items() if key.startswith("eval/")}
        self._evaluated: Row = {}
        self._on_terminal = sys.stderr.isatty()
        # With a delay, however short, the bar is drawn at the first iteration, not by a trainer that is built and never fits.
        self._bar = tqdm(total=iterations, unit="it", disable=not self._on_terminal, dynamic_ncols=True, delay=1e-3)

    def tick(self) -> None:
        self._bar.update()

    def write(self, row: Row) -> None:
        figures = "  ".join(self._read(key, row) for key in self._figures if key in row)
        if figures:
            self._evaluated = row
            with tqdm.external_write_mode():  # the bar makes way for a line of the log
                log.info("%s/%s  %s", f"{row['progress/iteration']:,}", f"{self.iterations:,}", figures)
        if "loss/d" not in row:
            return
        text = "  ".join(f"{label} {row[key]:.3f}" for key, label in self._labels.items() if key in row)
        text += f"  {row['speed/images_per_s']:,.0f} images/s"
        if self._on_terminal:
            self._bar.set_postfix_str(text)
        else:
            done, each_ms = (cast(float, row[key]) for key in ("progress/iteration", "time/iteration_ms"))
            left_s = (self.iterations - done) * each_ms / 1000
            text += f"  {tqdm.format_interval(left_s)} left" if left_s > 0 else ""
            log.info("%s/%s  %s", f"{row['progress/iteration']:,}", f"{self.iterations:,}", text)

    def rewind(self, iteration: int) -> Row:
        self._bar.n = self._bar.last_print_n = iteration
        return {}

    def close(self, summary: Summary) -> None:
        self._bar.close()
        row = self._evaluated
        if row:
            there = {key: figure for key, figure in self._figures.items() if key in row}
            notes = {figure.note for figure in there.values()}  # which stand in the lines that the run began with
            how = "".join(f", {part}" for part in shared([*there.values()]) if part not in notes)
            figures = ", ".join(self._read(key, row) for key in there)
            summary["notes"].append(f"Evaluated at iteration {row['progress/iteration']:,}{how}: {figures}.")

    def _read(self, key: str, row: Row) -> str:
        """Return a figure as people read it, with that of real data in brackets."""
        real = self._figures[key].real
        return f"{key.removeprefix('eval/')} {row[key]:.4g}" + ("" if real is None else f" (real {real:.4g})")
