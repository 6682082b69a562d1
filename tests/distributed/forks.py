"""Work that several processes do together, forked from this one, over gloo on the loopback interface."""

import os
import traceback
import warnings

import torch
import torch.distributed as dist

from ganexp.distributed.group import DistributedProcesses
from tests.processes import reaped


def several(count, work, folder):
    """Return what `work(processes)` returns in each of `count` processes; none of them outlives the limit."""
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # threads of xdist do not come along
        children = [_fork(rank, count, work, folder) for rank in range(count)]
    codes = reaped(children)
    said = "\n".join(path.read_text() for path in folder.glob("error*"))
    assert set(codes.values()) == {0}, f"{codes}\n{said}"
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
