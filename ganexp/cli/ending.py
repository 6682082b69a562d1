"""The text that a run or a sweep prints at its end."""

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ganexp.cli.line import key_of, read_line, without
from ganexp.cli.naming import by_latest
from ganexp.config.untrusted import is_typed_again
from ganexp.printable import printable

if TYPE_CHECKING:  # a typing mistake is answered without NumPy and Pillow
    from ganexp.logging import Summary


def epilogue(summary: "Summary") -> str:
    """Return the last lines of a run: its outcome, and the paths of its files."""
    files, paths = ("samples", "checkpoint", "rows"), summary["paths"]
    places = {key: str(by_latest(Path(paths[key]))) for key in files if key in paths}
    places |= {key: place for key, place in paths.items() if key not in (*files, "folder")}  # which its first line has named
    width = max([10, *map(len, places)])
    return "\n".join([outcome(summary), *(f"  {key:<{width}} {printable(place)}" for key, place in places.items())])


def outcome(summary: "Summary") -> str:
    """Return the outcome of a run: how long it trained, its last losses, and its notes."""
    last, seconds = summary["last"], summary["wall_s"]
    lines = [f"Trained {summary['iteration']:,} iterations in {seconds:.0f} s"]
    if "progress/real_images" in last:  # else it was stopped before its first row
        losses = [f"{name} {last[key]:.3f}, " for name, key in (("D", "loss/d"), ("G", "loss/g")) if key in last]
        lines[0] += f": {''.join(losses)}{last['progress/real_images'] / seconds:,.0f} images/s"
    lines[0] += "."
    return "\n".join([*lines, *summary["notes"]])


def forecast(job_s: float, left: int) -> str:
    """Return a line that says how long the remaining jobs of a sweep will take, given the time of one; empty if none remain."""
    if not left:
        return ""
    minutes = left * job_s / 60
    time = (
        f"{60 * minutes:.0f} s" if minutes < 2 else f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
    )
    jobs = f"the {left} jobs that are left take" if left > 1 else "the job that is left takes"
    return f"This job took {job_s:.0f} s; at this rate {jobs} about {time}.\n"


def command_to_resume(word: str) -> str:
    """Return the command, quoted for a shell, that resumes what this process has started.

    A run takes its settings from its folder, except for those that only the person who types may decide. Overrides of a sweep
    are not read from disk: all are typed again. What lets torchrun's processes on several machines find each other is left
    out, as `…`.

    Args:
        word: `resume=` or `sweep.resume=` with the folder.
    """
    line = read_line(sys.argv[1:])
    if line.sweeps or key_of(word) == "sweep.resume":
        arguments = ["-m", *line.options, word, *without(line.words, "hydra.sweep.dir", "hydra.mode", "sweep.resume")]
    else:
        arguments = [word, *filter(is_typed_again, line.words)]
    script = ["ganexp", "train"] if sys.argv[0] == "ganexp train" else [sys.argv[0]]
    words = shlex.join([*script, *arguments])
    if "TORCHELASTIC_RUN_ID" in os.environ:
        machines, processes = os.environ["GROUP_WORLD_SIZE"], os.environ["LOCAL_WORLD_SIZE"]
        several = "" if machines == "1" else f" --nnodes={machines} …"
        module = "-m " if script[0] == "ganexp" else ""
        return f"torchrun{several} --nproc_per_node={processes} {module}{words}"
    return words if script[0] == "ganexp" else f"python {words}"


def stopped_by(received: signal.Signals, word: str | None) -> str:
    """Return the last line of a run that was stopped by a signal: how to resume it, if it can be resumed."""
    if word is None:
        return f"Stopped by {received.name}; it has no checkpoint to go on from."
    return f"Stopped by {received.name}; to resume: {command_to_resume(word)}"
