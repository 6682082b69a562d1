"""Work that several processes do together, forked from this one, over gloo on the loopback interface."""

import os
import signal
import time
import traceback
import warnings

import torch
import torch.distributed as dist

from ganexp.distributed.group import DistributedProcesses

LIMIT_S = 600  # far beyond what they need beside other tests; only a hang takes that long


def several(count, work, folder):
    """Return what `work(processes)` returns in each of `count` processes; none of them outlives the limit."""
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # threads of xdist do not come along
        children = {rank: _fork(rank, count, work, folder) for rank in range(count)}
    statuses, end = {}, time.monotonic() + LIMIT_S
    while children:
        for rank, pid in list(children.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                statuses[rank] = os.waitstatus_to_exitcode(status)
                del children[rank]
        if time.monotonic() > end:
            for pid in children.values():
                os.kill(pid, signal.SIGKILL)
            raise TimeoutError(f"processes {', '.join(map(str, children))} have not ended within {LIMIT_S} s")
        time.sleep(0.005)
    said = "\n".join(path.read_text() for path in folder.glob("error*"))
    assert set(statuses.values()) == {0}, f"{statuses}\n{said}"
    return [torch.load(folder / f"result{rank}", weights_only=False) for rank in range(count)]


def _fork(rank, count, work, folder):
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        store = dist.FileStore(str(folder / "store"), count)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=count)
        processes = DistributedProcesses()
        torch.save(work(processes), folder / f"result{rank}")
        processes.close()
        code = 0
    except BaseException:
        (folder / f"error{rank}").write_text(traceback.format_exc())
    finally:
        os._exit(code)
