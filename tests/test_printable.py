"""Names from anywhere in one line, as `repr` would write what has no glyph; and where they come to the screen."""

import ast
import json
import os

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ganexp
from ganexp.cli.sweeping import Results, Sweep
from ganexp.printable import printable
from ganexp.sampling import saved
from tests.calling import said_by_train
from tests.small_runs import small_run

AWKWARD = "a\x1b[2Jb\nc\u202ed"


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=[]), max_size=20))
@example(os.fsdecode(b"caf\xe9.png"))
def test_python_reads_back_what_is_printable(text):
    shown = printable(text)
    assert shown.isprintable()
    if not set(text) & {"\\", '"'}:
        assert ast.literal_eval(f'"{shown}"') == text


def test_an_error_is_one_line_whatever_it_names():
    assert said_by_train([f"resume={AWKWARD}"]).startswith("Error: resume=a\\x1b[2Jb\\nc\\u202ed has no checkpoint")


def test_a_table_shows_what_a_strangers_sweep_says(tmp_path):
    Sweep(("seed=0",), ("seed",), (("seed=0",),)).save(tmp_path)
    (tmp_path / "0_run").mkdir()
    said = {"job": 0, "state": AWKWARD, "overrides": [f"seed={AWKWARD}"], "error": AWKWARD}
    (tmp_path / "0_run" / "summary.json").write_text(json.dumps(said))
    text = Results.read(tmp_path).table()
    assert text.replace("\n", "").isprintable()
    assert text.count("\n") == 2  # head, job and reason


def test_a_model_card_has_no_line_of_a_strangers(tmp_path):
    small_run(tmp_path / "run", "iterations=3").fit()
    path = tmp_path / "run" / "checkpoints" / "last.pt"
    state = torch.load(path, weights_only=True)
    state["config"]["loss"]["name"] = "x |\n\n# Read this"
    torch.save(state, path)
    card = (saved.save(ganexp.load(path), tmp_path / "given") / saved.CARD).read_text()
    assert "| loss | x /\\n\\n# Read this |" in card.splitlines()
