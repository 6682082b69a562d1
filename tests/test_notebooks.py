"""The notebooks run from top to bottom, each in a process of its own, and hold no outputs."""

import json
import sys

import pytest

from tests.composing import CONF
from tests.processes import run

NOTEBOOKS = sorted((CONF.parent / "docs" / "notebooks").glob("*.ipynb"))


def cells(path, kind):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_outputs_are_committed(path):
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(path, "code"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs(path, tmp_path):
    """Run the cells as one program: they need nothing of a notebook's server."""
    code = "\n\n".join("".join(cell["source"]) for cell in cells(path, "code"))
    (tmp_path / "notebook.py").write_text(code)
    done = run(sys.executable, "-W", "error", "notebook.py", cwd=tmp_path, PYTHONPATH=CONF.parent, MPLBACKEND="agg")
    assert done.returncode == 0, done.stderr
