"""The time from the command to the first step."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.section import Section
from ganexp.compare.intervals import of_ratio
from measuring.markdown import table

ROOT = Path(__file__).resolve().parent.parent.parent
IMPORTS = "import torch, torchvision, hydra, wandb"
OPTIMIZER = "torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])"
RUN = ("iterations=2", "log_every=1", "sample_every=2", "checkpoint_every=2")


def startup(turns: int) -> Section:
    """Time, in turn, bare imports, and runs up to the first row, which follows the first step."""
    ways = {
        "`logger.wandb.mode=offline`, digits": ("logger.wandb.mode=offline",),
        "`logger=[]`, digits": ("logger=[]",),
        "`logger=[]`, fake": ("logger=[]", "dataset=fake"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for n, overrides in enumerate(ways.values()):
            _first_row_s(Path(folder) / f"warm{n}", overrides)  # files come into memory, digits into the cache
        times: dict[str, list[float]] = {name: [] for name in ("imports", "imports and an optimiser", *ways)}
        for turn in range(turns):
            times["imports"].append(_seconds([sys.executable, "-c", IMPORTS]))
            times["imports and an optimiser"].append(_seconds([sys.executable, "-c", f"{IMPORTS}; {OPTIMIZER}"]))
            for n, (name, overrides) in enumerate(ways.items()):
                times[name].append(_first_row_s(Path(folder) / f"{n}_{turn}", overrides))
    rows = [
        {
            "what": name if name in ways else f"`{IMPORTS}`{name.removeprefix('imports')}",
            "s": statistics.median(found),
            "over the imports": of_ratio(found, times["imports"]),
        }
        for name, found in times.items()
    ]
    return Section(
        "Start-up",
        "From `python train.py` until the first row is written, which is just after the first step, against importing the same "
        "libraries in a fresh Python. The digits are in the cache.\n\n" + table(rows),
    )


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return time.perf_counter() - start


def _first_row_s(folder: Path, overrides: tuple[str, ...]) -> float:
    rows = folder / "metrics.jsonl"
    command = [sys.executable, "train.py", *RUN, *overrides, f"hydra.run.dir={folder}"]
    start = time.perf_counter()
    run = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | {"WANDB_DIR": str(folder)}
    )
    while not (rows.exists() and rows.stat().st_size):
        if run.poll() is not None:
            assert run.stderr is not None
            raise RuntimeError(f"train.py ended with {run.returncode}: {run.stderr.read().decode()[-500:]}")
        time.sleep(0.005)
    seconds = time.perf_counter() - start
    run.communicate()
    return seconds
