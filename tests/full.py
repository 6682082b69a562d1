"""A disk that is full, in a forked copy of this process: no file may have more than so many bytes, whoever writes it."""

import multiprocessing
import resource
import signal

from tests.processes import joined


def on_a_full_disk(action, *arguments, room=0):
    """Run an action where files may have `room` bytes; return its answer as `repr` writes it, or the OSError's text."""
    context = multiprocessing.get_context("fork")
    said = context.Queue()
    process = context.Process(target=_run, args=(said, room, action, arguments))
    process.start()
    assert joined(process) == [0]
    return said.get(timeout=10)


def _run(said, room, action, arguments):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        said.put(repr(action(*arguments)))
    except OSError as error:
        said.put(f"OSError: {error}")
    except SystemExit as end:
        said.put(f"SystemExit: {end.code}")
