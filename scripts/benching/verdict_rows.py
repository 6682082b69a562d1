"""Every rule's figures in every block, as a CSV file."""

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benching.tuning import edges
from benching.verdicts import Block, overturned
from ganexp.compare.intervals import Interval


def as_csv(found: Sequence[Block]) -> str:
    """Return every rule's figures in every block as a CSV file."""
    file = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    fallen = [one for _, one in overturned([block for block in found if not block.workload.rescue])]
    for block in found:
        at_ends = edges(block)
        for one in (*block.verdicts, *block.added):
            counts = one.standing != "unclear" and one in block.fixed and not block.workload.rescue
            row: dict[str, Any] = {"workload": block.workload.key, "optimizer": block.division, "rule": one.rule}
            row |= _ends("distance", one.figure) | _ends("ratio", one.ratio)
            row |= {
                "chance": "" if one.improvement is None else f"{one.improvement:.3g}",
                "p": f"{one.p:.3g}" if one.ratio else "",
                "verdict": one.outcome if one.ratio else "",
                "stands_over_the_page": "" if not counts else "no" if one in fallen else "yes",
                "lost": one.lost,
                "reached_target": int(np.isfinite(one.reached).sum()),
                "time": f"{one.time:.3g}" if math.isfinite(one.time) else "",
            }
            row |= _ends("at_equal_time", one.at_time)
            row |= {"point": one.chosen.point, "settings": one.chosen.said, "at_the_edge": " ".join(at_ends[one.rule])}
            if writer is None:
                writer = csv.DictWriter(file, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)
    return file.getvalue()


def _ends(name: str, interval: Interval | None) -> dict[str, str]:
    ends = (interval.middle, interval.low, interval.high) if interval else ()
    return dict.fromkeys((name, f"{name}_low", f"{name}_high"), "") | {
        key: f"{end:.4g}" for key, end in zip((name, f"{name}_low", f"{name}_high"), ends, strict=False)
    }
