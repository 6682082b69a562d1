"""`python train.py` in a forked copy of this process, in which everything is imported already.

An interpreter that imports torch takes seconds to start, on a busy machine half a minute.
"""

import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings

import torchvision.transforms.v2
import torchvision.utils  # noqa: F401

import ganexp.cli.jobs
import ganexp.cli.run  # noqa: F401
from tests.processes import TRAIN, reaped


def train(*arguments, cwd, **environment):
    """Run the entry point as a person types it, without W&B's variables, and return what has become of it.

    For commands that leave nothing behind for the end of a process: those without W&B, and without processes of their own.
    """
    (done,) = train_at_once([(arguments, environment)], cwd)
    return done


def train_at_once(commands, cwd):
    """Run the entry point for several arguments and environments at the same time."""
    children, files = [], [(tempfile.TemporaryFile(), tempfile.TemporaryFile()) for _ in commands]  # noqa: SIM115
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # threads of xdist do not come along
        for (arguments, environment), (out, err) in zip(commands, files, strict=True):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    code = _run([TRAIN, *arguments], cwd, environment, out.fileno(), err.fileno())
                finally:
                    os._exit(code)
            children.append(child)
    codes, done = reaped(children), []
    for child, (arguments, _), pair in zip(children, commands, files, strict=True):
        texts = [os.pread(file.fileno(), 2**24, 0).decode() for file in pair]
        done.append(subprocess.CompletedProcess(arguments, codes[child], *texts))
        for file in pair:
            file.close()
    return done


def _run(argv, cwd, environment, out, err):
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
    warnings.resetwarnings()
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        del os.environ[name]
    os.environ |= {"NETRC": str(cwd / "no-netrc")} | environment
    os.chdir(cwd)
    sys.argv = argv
    try:
        runpy.run_path(argv[0], run_name="__main__")
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
