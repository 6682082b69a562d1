"""Joining the processes that torchrun has started."""

import atexit
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from ganexp.distributed.group import DistributedProcesses, FailedElsewhere
from ganexp.distributed.processes import Processes
from ganexp.facts import UserError
from ganexp.printable import one_line

NEEDED = ("RANK", "MASTER_ADDR", "MASTER_PORT")
"""The environment variables that torchrun sets for every process, besides WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE."""
FINDING = timedelta(minutes=5)
WAITING = timedelta(minutes=30)
"""How long processes wait for each other: for one that writes, draws and evaluates, or that has died."""


def join() -> Processes:
    """Join the processes that torchrun has started; without torchrun, return a single process.

    Devices communicate by NCCL if each process has a GPU of its own, else by gloo. The current GPU becomes that of LOCAL_RANK.
    Torchrun allows each process one thread unless OMP_NUM_THREADS is set: here each gets its share of the cores.

    Raises:
        UserError: The environment is incomplete, or the others are not there.
        FailedElsewhere: The same, in all processes but the first.
    """
    count = _number("WORLD_SIZE", 1)
    if count == 1:
        return Processes()
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        raise _cannot(f"WORLD_SIZE={count}, and {' and '.join(missing)} is not set: start the processes with torchrun")
    local_rank, local_count = _number("LOCAL_RANK", 0), _number("LOCAL_WORLD_SIZE", 1)
    if os.environ.get("OMP_NUM_THREADS", "1") == "1":
        torch.set_num_threads(max(1, cores() // local_count))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus:
        torch.cuda.set_device(local_rank % gpus)
    backend = "cpu:gloo,cuda:nccl" if gpus >= local_count and dist.is_nccl_available() else "gloo"
    try:
        store, rank, count = next(rendezvous("env://", timeout=FINDING))
        store.set_timeout(FINDING)
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = PrefixStore(f"attempt {attempt}", store)  # torchrun's outlives a restart, with addresses of dead processes
        dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=WAITING)
        atexit.register(_leave)
        return DistributedProcesses(store)
    except (RuntimeError, ValueError) as error:
        reason = one_line(error)
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise _cannot(
            f"{count} processes have not found each other at {address} ({reason}): start all with torchrun"
        ) from error


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _number(name: str, default: int) -> int:
    value = os.environ.get(name) or str(default)
    if not value.isdecimal():
        raise _cannot(f"{name}={value} is no number: start the processes with torchrun, which sets it")
    return int(value)


def _cannot(message: str) -> UserError | FailedElsewhere:
    """Return the error to raise: `UserError` in the first process, `FailedElsewhere` in the others."""
    return UserError(message) if os.environ.get("RANK", "0") in ("0", "") else FailedElsewhere(message)


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
