"""What README and pages quote of the program's output is what it says, but for figures, times and folders."""

import re
import shlex
import sys

import numpy as np
import pytest
from PIL import Image

from ganexp.cli.sweeping import Results
from tests import forked
from tests.calling import call, said_by_train
from tests.cli.handmade_sweeps import TINY, make_sweep
from tests.composing import CONF
from tests.processes import train as train_apart

ROOT = CONF.parent
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
REFUSALS = [
    (page, *found)
    for page, text in PAGES.items()
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for found in re.findall(r"^\$ python train\.py (.*)\n(Error: .*)$", block, re.MULTILINE)
]
OUTPUTS = re.compile(r"^```text\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAID = {
    "README.md": ["Trained 2,500 iterations"],
    "docs/benchmarks.md": ["time = samples"],  # a formula
    "docs/claims.md": [
        "RuntimeError: Trying",
        "RuntimeError: one of",
        "[None",
    ],  # torch's words
    "docs/development.md": ["train.py     "],  # the tree is compared with the code in test_readme.py
    "docs/evaluation.md": ["1,000/4,000"],
    "docs/library.md": ["pip install"],
    "docs/watching.md": ["Watched 3", "Watched 2"],
    "docs/sweeps.md": ["job  strategy", "Ranked by", "wandb sweep", "torchrun"],
}
"""How each quoted text begins: those of the program are compared below, and the others are commands."""
ELSEWHERE = "docs/bugs_of_the_world.md"
"""A page whose texts are compared in tests/watching/test_bugs_of_the_world.py."""


def quoted(page, beginning):
    (found,) = [block for block in OUTPUTS.findall(PAGES[page]) if block.startswith(beginning)]
    return found.splitlines()


def masked(line):
    """Return a line without its figures, and with one space between its words."""
    line = re.sub(r"outputs/[^/\s]+/", "outputs/RUN/", line)
    return " ".join(re.sub(r"-?\d[\d,.]*", "N", line).split())


def small(picture):
    """Return a picture as `(24, 48)` shades of grey, in which a letter's place is little and a bar's is much."""
    with Image.open(picture) as image:
        return np.asarray(image.convert("L").resize((48, 24), Image.Resampling.BOX), dtype=float)


def test_every_quoted_text_is_known():
    found = {
        page: [block.splitlines()[0] for block in OUTPUTS.findall(text)] for page, text in PAGES.items() if page != ELSEWHERE
    }
    assert {page: len(lines) for page, lines in found.items() if lines} == {page: len(known) for page, known in SAID.items()}
    assert all(line.startswith(SAID[page][place]) for page, lines in found.items() for place, line in enumerate(lines))


@pytest.mark.parametrize(("page", "words", "said"), REFUSALS, ids=[words for _, words, _ in REFUSALS])
def test_a_quoted_refusal_is_what_is_said(page, words, said, tmp_path, monkeypatch):
    """With classes as the page defines them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_conf" / "loss").mkdir(parents=True)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)
    for name in re.findall(r"loss=(mine|picky)\b", words):
        module = next(block for block in blocks if f"class {name.title()}(" in block and "import " in block and "def " in block)
        (tmp_path / f"quoted_{name}.py").write_text(module)
        (tmp_path / "my_conf" / "loss" / f"{name}.yaml").write_text(
            f"name: {name}\n_target_: quoted_{name}.{name.title()}\n" + {"mine": "shift: 1.0\n", "picky": "least: 64\n"}[name]
        )
    assert said_by_train(shlex.split(words)) == said
    for name in [name for name in sys.modules if name.startswith("quoted_")]:
        del sys.modules[name]


@pytest.mark.parametrize(("name", "beginning"), [("good", "Watched 3"), ("broken", "Watched 2")])
def test_the_report_of_a_watched_loop(name, beginning, tmp_path, monkeypatch, capsys):
    page = "docs/watching.md"
    scripts = re.findall(r"^```python\n(import torch.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)
    (tmp_path / f"{name}.py").write_text(scripts[name == "broken"])
    monkeypatch.chdir(tmp_path)
    call("watch", f"{name}.py", "--iterations", beginning.split()[1], "--picture", "drawn.png")
    assert [*map(masked, capsys.readouterr().out.splitlines())] == [*map(masked, quoted(page, beginning))]
    if name == "good":
        shown, drawn = (small(path) for path in (ROOT / "docs" / "watching.png", tmp_path / "drawn.png"))
        assert np.abs(shown - drawn).max() < 40  # of 255; versions of Matplotlib set letters a little differently


@pytest.mark.slow
def test_the_end_of_the_first_run(tmp_path):
    done = train_apart("generator.width=4", "discriminator.width=4", "iterations=60", cwd=tmp_path)
    lines = [*map(masked, done.stdout.splitlines())]
    assert [line for line in map(masked, quoted("README.md", "Trained")) if line not in lines] == []


@pytest.mark.slow
def test_the_table_of_a_sweep(tmp_path):
    words = shlex.split(
        re.search(r"^python train\.py (-m strategy=detach,g_first.*)$", PAGES["docs/sweeps.md"], re.MULTILINE)[1]
    )
    done = forked.train(*words, *TINY, "logger=[]", cwd=tmp_path)
    lines = [*map(masked, done.stdout.splitlines())]
    for line in quoted("docs/sweeps.md", "job  strategy"):
        beginning = masked(line.rstrip("…")).rstrip()
        assert any(one.startswith(beginning) for one in lines), (line, done.stdout)


def test_the_ranking_of_a_sweep(tmp_path):
    rates = {"optimizer.lr=0.0002": [0.08, 0.09, 0.09, 0.1], "optimizer.lr=5e-05": [0.23, 0.24, 0.24, 0.25]}
    rates["optimizer.lr=0.001"] = [0.03, 0.1, 0.5, 0.7]
    folder = make_sweep(tmp_path / "sweep", rates)
    lines = [*map(masked, Results.read(folder).ranking_text(80).splitlines())]
    metric = Results.read(folder).sweep.metric
    for line in quoted("docs/sweeps.md", "Ranked by"):
        expected = masked(line.replace("softmaxgan/d_excess", metric))
        assert line == "…" or not expected or expected in lines, (expected, lines)


@pytest.mark.slow
def test_a_line_of_figures(tmp_path):
    small = ["iterations=4", "evaluate_every=4", "evaluation.samples=500", "sample_every=0", "checkpoint_every=0", "logger=[]"]
    done = forked.train("experiment=ring", *small, "generator.width=8", "discriminator.width=8", cwd=tmp_path)
    (line,) = quoted("docs/evaluation.md", "1,000/4,000")
    assert masked(line) in [*map(masked, done.stdout.splitlines())], done.stdout
