"""What a run or a sweep prints at its end."""

import shlex
import signal
import sys
from typing import NoReturn

from ganexp.command_line.recorded import config_options
from ganexp.runs.book import Summary


def epilogue(summary: Summary) -> str:
    """Return the few lines that a run ends with: what was done, and where everything is."""
    last, seconds = summary["last"], summary["wall_s"]
    lines = [f"Trained {summary['iteration']:,} iterations in {seconds:.0f} s"]
    if "loss/d" in last:  # else it was stopped before its first row
        speed = last["progress/real_images"] / seconds
        lines[0] += f": D {last['loss/d']:.3f}, G {last['loss/g']:.3f}, {speed:,.0f} images/s"
    lines[0] += "."
    order = ("samples", "checkpoint", "rows", "W&B", "upload")
    lines += [f"  {key:<11}{summary['paths'][key]}" for key in order if key in summary["paths"]]
    return "\n".join(lines)


def command_to_resume(*overrides: str) -> str:
    """Return the command, quoted for a shell, that resumes what this process has started."""
    options, rest = config_options(sys.argv[1:])
    trusted = [one for one in rest if one.startswith("trust=") and one != "trust=[]"]  # a resumed run trusts none by itself
    return shlex.join(["python", sys.argv[0], *options, *overrides, *trusted])


def stopped_by(received: signal.Signals, *overrides: str) -> str:
    """Return what a run that was stopped by a signal says last: how to resume it."""
    return f"Stopped by {received.name}; to resume: {command_to_resume(*overrides)}"


def exit_stopped(received: signal.Signals, *overrides: str) -> NoReturn:
    """End the program after a signal, and print how to resume."""
    print(stopped_by(received, *overrides))
    raise SystemExit(128 + received)
