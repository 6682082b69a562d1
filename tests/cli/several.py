"""`python train.py` in several processes, as torchrun starts them."""

import socket
import sys
from pathlib import Path

import psutil

from tests.forked import train_at_once
from tests.processes import TRAIN, Begun
from tests.small_runs import SMALL

RUN = [*SMALL, "batch_size=6", "iterations=10", "threads=1"]
LONG = [*RUN, "hydra.run.dir=run", "checkpoint_every=50", "log_every=50", "sample_every=0", "keep_checkpoints=1000"]
LONG += ["iterations=1000000"]


def started_by_hand(commands, cwd):
    """Run the entry point once for each command's arguments, as torchrun does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = {"WORLD_SIZE": len(commands), "LOCAL_WORLD_SIZE": len(commands), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    asked = []
    for rank, arguments in enumerate(commands):
        environment = {**known, "RANK": rank, "LOCAL_RANK": rank, "GLOO_SOCKET_IFNAME": "lo"}
        asked.append((arguments, {key: str(value) for key, value in environment.items()}))
    return [(done.returncode, done.stdout, done.stderr) for done in train_at_once(asked, cwd)]


def torchrun(*arguments, cwd, options=()):
    """Start torchrun with two processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", *options, TRAIN]
    return Begun(*command, *arguments, cwd=cwd, PYTHONPATH=str(Path(TRAIN).parent))


def process_of(rank, made, checkpoint):
    """Return the process of a rank as soon as there is a checkpoint."""
    assert made.until((made.cwd / "run" / "checkpoints" / checkpoint).exists), made.said()
    children = psutil.Process(made.pid).children(recursive=True)
    (found,) = [one for one in children if one.environ().get("RANK") == str(rank) and "train.py" in " ".join(one.cmdline())]
    return found
