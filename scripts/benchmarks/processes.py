"""The speed-up of several processes on this machine, and the cost of their communication."""

import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import spawn

from benchmarks.section import Section
from ganexp import Trainer, build, compose
from ganexp.batch import Gradients
from ganexp.cli.commands.compare.cases import CASES
from ganexp.compare.racing import Times, seconds_of, synchronize
from ganexp.distributed.group import DistributedProcesses
from ganexp.distributed.joining import join
from ganexp.distributed.processes import Processes
from measuring.markdown import table

COUNTED = 10
"""Iterations in which collectives are counted and timed."""
Counts = dict[str, tuple[float, float, float]]
"""By kind, per iteration: collectives, bytes, and milliseconds, waiting for the others included."""


def processes(cases: Sequence[str], turns: int, turn_s: float) -> Section:
    """Race one process against several, which share its batch: on CPUs two of one thread each, on GPUs as many as there are."""
    gpus = torch.cuda.device_count()
    count = gpus if gpus > 1 else 2
    races, exchanges = [], []
    for case in cases:
        times, counts = _raced(CASES[case], count, turns, turn_s)
        together = times["together"]
        threads = {"speed-up, two threads": times["alone"].over(times["two threads"])} if "two threads" in times else {}
        races.append(
            {
                "case": case,
                "one process, ms": times["alone"].median_ms,
                f"{count} processes, ms": together.median_ms,
                f"speed-up, {count} processes": times["alone"].over(together),
                **threads,
                "efficiency, the same share for each": times["a share alone"].over(together),
            }
        )
        exchanges += [
            {"case": case, "what": kind, "collectives": calls, "kB": size / 1e3, "share of the time": ms / together.median_ms}
            for kind, (calls, size, ms) in counts.items()
        ]
    who = f"{count} GPUs over NCCL" if gpus > 1 else "two processes of one thread each, over gloo"
    return Section(
        "Several processes",
        f"One process, with one thread or GPU, against {who}, in turn. *Speed-up*: with the same batch (strong scaling; "
        f"{count} would be perfect). *Efficiency*: the time of one process by itself with its share of the batch, over the "
        "time of all of them with one share each (weak scaling; 1 would be perfect).\n\n"
        + table(races)
        + "\nWhat a process exchanges in an iteration, and the time for it, waiting for the others included:\n\n"
        + table(exchanges),
    )


def _raced(overrides: Sequence[str], count: int, turns: int, turn_s: float) -> tuple[dict[str, Times], Counts]:
    """Race in separate processes, and return the measurements of the first one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    known = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    told = {key: str(value) for key, value in known.items()} | {"OMP_WAIT_POLICY": "passive"}
    context = get_context("spawn")
    found = context.SimpleQueue()
    with patch.dict(os.environ, told):  # which OpenMP reads as torch is imported
        spawn(_race, (tuple(overrides), turns, turn_s, found), count)
    result: tuple[dict[str, Times], Counts] = found.get()
    return result


def _race(rank: int, overrides: Sequence[str], turns: int, turn_s: float, found: Any) -> None:
    """Run one process of the race."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    several = join()
    result = race(several, overrides, turns, turn_s)
    if several.is_main:
        found.put(result)
    several.close()


def race(several: Processes, overrides: Sequence[str], turns: int, turn_s: float) -> tuple[dict[str, Times], Counts]:
    """Let all processes iterate together, and the first one alone while the others wait, and return what it has measured."""
    on_cpu = "nccl" not in dist.get_backend_config()
    batch = compose(*overrides).batch_size
    device = "device=cpu" if on_cpu else "device=cuda"

    def trainer_of(batch_size: int, sharing: Processes) -> Trainer:
        return build(compose("average=none", *overrides, f"batch_size={batch_size}", device), processes=sharing)

    torch.set_num_threads(1)
    together = trainer_of(batch, several)
    alone = {"alone": trainer_of(batch, Processes()), "a share alone": trainer_of(batch // several.count, Processes())}
    steps: dict[str, tuple[Trainer, int]] = {"together": (together, 1)} | {name: (one, 1) for name, one in alone.items()}
    if on_cpu:
        steps["two threads"] = (trainer_of(batch, Processes()), 2)
    names, times = [*steps], {name: Times() for name in steps}

    def timed(name: str, iterations: int) -> float:
        trainer, threads = steps[name]
        several.tell(None)  # all begin at once, and those that only wait do so without a thread
        if name != "together" and not several.is_main:
            return 0.0
        torch.set_num_threads(threads)
        return seconds_of(lambda: _iterate(trainer), iterations, trainer.gan.prior.device)

    iterations = {}
    for name in names:
        timed(name, 6)  # kernels are chosen, caches are warm
        iterations[name] = several.tell(max(1, round(turn_s / max(timed(name, 2) / 2, 1e-9))))[0]
    for turn in range(turns):
        first = turn % len(names)
        for name in [*names[first:], *names[:first]]:
            times[name].times_ms.append(1000 * timed(name, iterations[name]) / iterations[name])
    torch.set_num_threads(1)
    with _counting() as counted:
        for _ in range(COUNTED):
            _iterate(together)
    return times, {kind: (calls / COUNTED, size / COUNTED, ms / COUNTED) for kind, (calls, size, ms) in counted.items()}


def _iterate(trainer: Trainer) -> None:
    trainer.asked_to_stop()
    trainer.step(trainer.reals)


@contextmanager
def _counting() -> Iterator[dict[str, list[float]]]:
    """Count collectives, their bytes and their milliseconds; the device is waited for before and after each."""
    counted: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    kind = ["statistics of batch norm"]  # in the backward pass, these are reduced by no method of the processes
    reduce, gather, summed = dist.all_reduce, dist.all_gather, DistributedProcesses.sum

    def timed(what: str, tensor: Tensor, call: Callable[[], Any]) -> Any:
        synchronize(tensor.device)
        start = time.perf_counter()
        result = call()
        synchronize(tensor.device)
        for place, value in enumerate((1, tensor.numel() * tensor.element_size(), 1000 * (time.perf_counter() - start))):
            counted[what][place] += value
        return result

    def all_reduce(tensor: Tensor, *args: Any, **more: Any) -> Any:
        what = "whether to stop" if more.get("async_op") else kind[0]
        return timed(what, tensor, lambda: reduce(tensor, *args, **more))

    def all_gather(shares: list[Tensor], share: Tensor, *args: Any, **more: Any) -> Any:
        return timed("scores", share, lambda: gather(shares, share, *args, **more))

    def sums(self: DistributedProcesses, gradients: Gradients) -> Gradients:
        before, kind[0] = kind[0], "gradients"
        try:
            return summed(self, gradients)
        finally:
            kind[0] = before

    with (
        patch.object(dist, "all_reduce", all_reduce),
        patch.object(dist, "all_gather", all_gather),
        patch.object(DistributedProcesses, "sum", sums),
    ):
        yield counted
