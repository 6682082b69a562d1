"""The notebooks run from top to bottom, each in a process of its own, and print what is in them."""

import base64
import io
import json
import re
import sys

import pytest
from PIL import Image

from tests.composing import CONF
from tests.processes import run

NOTEBOOKS = sorted((CONF.parent / "docs" / "notebooks").glob("*.ipynb"))


def code(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def outputs(path):
    return [output for cell in code(path) for output in cell["outputs"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_they_were_executed_in_order_and_without_errors(path):
    assert [cell["execution_count"] for cell in code(path)] == [*range(1, len(code(path)) + 1)]
    shown = [output["data"] for output in outputs(path) if output.get("name") != "stdout"]
    assert all({"image/png", "text/html"} & data.keys() for data in shown)
    pictures = [base64.b64decode(data["image/png"]) for data in shown if "image/png" in data]
    for picture in pictures:
        assert len(picture) < 40_000
        with Image.open(io.BytesIO(picture)) as image:
            image.load()


def test_a_notebook_shows_a_watched_loop_as_a_table():
    (table,) = [
        "".join(output["data"]["text/html"])
        for path in NOTEBOOKS
        for output in outputs(path)
        if "text/html" in output.get("data", ())
    ]
    assert "<th" in table
    assert "g_first" in table


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_prints_what_is_in_the_notebook(path, tmp_path):
    """Run the cells as one program: they need nothing of a notebook's server. Digits after a point depend on the machine."""
    program = "\n\n".join("".join(cell["source"]) for cell in code(path))
    (tmp_path / "notebook.py").write_text(program)
    done = run(sys.executable, "-W", "error", "notebook.py", cwd=tmp_path, PYTHONPATH=CONF.parent, MPLBACKEND="agg")
    assert done.returncode == 0, done.stderr
    printed = "".join("".join(output.get("text", "")) for output in outputs(path))
    assert re.sub(r"\.\d+", ".…", done.stdout) == re.sub(r"\.\d+", ".…", printed)
