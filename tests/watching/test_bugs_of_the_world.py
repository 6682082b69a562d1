"""docs/bugs_of_the_world.md: watching says what the page says, at the marked lines, and nothing of the repaired loops."""

import contextlib
import re

import pytest

import ganexp
from tests.composing import CONF
from tests.thinned import thinned

PAGE = (CONF.parent / "docs/bugs_of_the_world.md").read_text()
FIRST = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
BUGS = re.findall(
    r"^#{2,3} ([^\n]+)\n\n\[[^\]]+\]\(https://[^)]+\)[^`]*?(?:`[^`\n]+`[^`]*?)*```diff\n(.*?)```\n\n```text\n(.*?)```",
    PAGE,
    re.DOTALL | re.M,
)


def watched(loop):
    names = {}
    exec(FIRST, names)
    with contextlib.suppress(RuntimeError), ganexp.watch() as report:  # torch refuses some
        exec(compile(loop, "bug.py", "exec"), names)
    return report


def without(mark, diff):
    return "".join(line[1:] for line in diff.splitlines(keepends=True) if not line.startswith(mark))


@pytest.mark.parametrize(("title", "diff", "said"), thinned(BUGS, 5), ids=lambda one: one if "\n" not in str(one) else "")
def test_what_the_page_says_is_what_watching_says(title, diff, said):
    report = watched(without("+", diff))
    assert ("".join(f"fault   {one}\n" for one in report.faults) or "faults  none\n") == said
    (line,) = (number for number, text in enumerate(without("+", diff).splitlines(), 1) if text.endswith("# <-"))
    assert any(one.place == f"bug.py:{line}" for one in report.fault_records) is bool(report.faults)
    repaired = watched(without("-", diff))
    assert (repaired.faults, repaired.iterations >= 2) == ([], True)


def test_the_page_has_twenty_loops_of_which_eighteen_faults_are_found():
    assert len(BUGS) == PAGE.count("```diff") == 20
    assert sum(said != "faults  none\n" for _, _, said in BUGS) == 18
    assert all(7 <= len(without("+", diff).splitlines()) <= 30 for _, diff, _ in BUGS)
