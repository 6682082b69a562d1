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
LOOP = """
import torch
G, D = torch.nn.Linear(4, 2), torch.nn.Linear(2, 1)
g, d = torch.optim.SGD(G.parameters(), 0.1), torch.optim.SGD(D.parameters(), 0.1)
for _ in range(3):
    d.zero_grad()
    fake = G(torch.randn(8, 4))
    (D(fake.detach()).mean() - D(torch.randn(8, 2)).mean()).backward()
    d.step()
    g.zero_grad()
    (-D(fake).mean()).backward()
    g.step()
"""
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


def answers(turns: int) -> Section:
    """Time, in turn, importing torch, a script alone and watched, help, and a typing mistake; each as a whole process."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "loop.py"
        script.write_text(LOOP)
        ways = {
            '`python -c "import torch"`': ["-c", "import torch"],
            "`python loop.py`": [str(script)],
            "`ganexp watch loop.py`": ["-m", "ganexp", "watch", str(script)],
            "`python train.py --help`": ["train.py", "--help"],
            "`python train.py los=hinge`, a typing mistake": ["train.py", "los=hinge"],
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(turns + 1):
            for name, words in ways.items():
                seconds = _seconds([sys.executable, *words], codes=(1,) if "mistake" in name else (0,))
                if turn:  # the first one brings files into memory
                    times[name].append(seconds)
    torch_alone, alone, watched = (times[name] for name in [*ways][:3])
    rows = [
        {"what": name, "s": statistics.median(found), "over importing torch": of_ratio(found, torch_alone)}
        for name, found in times.items()
    ]
    added = statistics.median(a - b for a, b in zip(watched, alone, strict=True))
    return Section(
        "Answers",
        "Whole processes, in turn; `loop.py` trains two small networks for three iterations. Watching it adds a median of "
        f"{added:.2f} s.\n\n" + table(rows),
    )


def _seconds(command: list[str], codes: tuple[int, ...] = (0,)) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, cwd=ROOT)
    if done.returncode not in codes:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr.decode()[-500:]}")
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
