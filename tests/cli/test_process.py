"""Ctrl-C ends every command with one line, whenever it comes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ganexp.cli import process
from tests import processes
from tests.composing import CONF

ROOT = CONF.parent
SCRIPTS = [path for path in sorted((ROOT / "scripts").glob("*.py")) if "__main__" in path.read_text()]
COMMANDS = [
    [ROOT / "train.py", "loss=hinge"],
    ["-m", "ganexp", "train", "loss=hinge"],
    ["-m", "ganexp", "features", "digits"],
]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_hears_ctrl_c_before_it_imports_anything_that_takes_long(path):
    head = path.read_text().partition("process.begin()")[0]
    imported = re.findall(r"^ *(?:from|import) (\S+)", head, re.M)
    assert head.count('if __name__ == "__main__":') == 1
    assert set(imported) <= {"os", "sys", "ganexp.cli"}


@pytest.mark.parametrize("module", ["main", "train"])
def test_so_does_a_command(module):
    code = f"import sys, ganexp.cli.{module}; assert not {{'torch', 'hydra', 'omegaconf', 'pydantic'}} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [*([path] for path in SCRIPTS), *COMMANDS], ids=lambda words: " ".join(Path(one).stem for one in words)
)
def test_ctrl_c_while_torch_is_imported_is_one_line(command, tmp_path):
    """A stand-in for torch sends the signal, and shows every exception that it is given."""
    (tmp_path / "torch.py").write_text(
        "import os, signal, sys, traceback\n"
        "sys.stderr.write('torch ')\nsys.stderr.flush()\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    sum(range(10**6))\n"
        "except BaseException:\n    traceback.print_exc()\n"
    )
    done = processes.run(sys.executable, *command, cwd=tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    *first, last = done.stderr.splitlines()
    assert (done.returncode, last) == (130, f"torch {process.SAID}")
    assert all("loading libraries" in line for line in first)


def test_ctrl_c_while_a_script_works_is_one_line_after_its_files_are_closed(capfd):
    closed = []

    def main():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            closed.append(True)

    before = signal.getsignal(signal.SIGINT)
    try:
        process.begin()
        with pytest.raises(SystemExit) as told:
            process.run(main)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (told.value.code, closed, capfd.readouterr().err) == (130, [True], f"{process.SAID}\n")


def test_ctrl_c_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.begin()
        process.by_exception()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
