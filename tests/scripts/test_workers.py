"""Worker processes end with their parent: at Ctrl-C without a further word or a further call, and if the parent is killed."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.composing import CONF

MAIN = """
import sys, time
from ganexp.cli import process
from experiments.workers import workers

def main():
    with workers(1) as pool:
        assert pool.submit(abs, -3).result() == 3
        waiting = [pool.submit(time.sleep, 60) for _ in range(3)]
        print("begun", flush=True)
        waiting[-1].result()

if __name__ == "__main__":
    process.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(ending, tmp_path):
    (tmp_path / "main.py").write_text(MAIN)
    paths = os.pathsep.join(map(str, (CONF.parent, CONF.parent / "scripts")))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    main = subprocess.Popen([sys.executable, tmp_path / "main.py"], env=os.environ | {"PYTHONPATH": paths}, **pipes)
    assert main.stdout.readline() == "begun\n"
    workers = [one for one in psutil.Process(main.pid).children() if "spawn_main" in " ".join(one.cmdline())]
    assert len(workers) == 1
    if ending == signal.SIGINT:
        os.killpg(main.pid, ending)  # as a terminal does
    else:
        main.kill()
    assert not psutil.wait_procs(workers, timeout=30)[1]  # before its next call, and before this one ends
    _, said = main.communicate(timeout=60)
    if ending == signal.SIGINT:
        assert said == "Interrupted; what was written is kept.\n"
