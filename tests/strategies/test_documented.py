"""The pages say of every strategy what it costs and does; sections of docs/strategies.md agree with the generated tables."""

import re
from pathlib import Path

import pytest

from ganexp.config.assemble import plain_strategy_of
from ganexp.config.choices import choose
from ganexp.config.plain import plain
from tests.composing import composed

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = [path.stem for path in sorted((ROOT / "conf" / "strategy").glob("*.yaml"))]
PAGE = (ROOT / "docs" / "strategies.md").read_text()
TABLE = dict(re.findall(r"^\| `(\w+)`(?: \(default\))? \| (`[^`]*` \| \d+d \+ \d+g) \|", PAGE, re.MULTILINE))
SECTIONS = {
    title.split(",")[0]: text for title, text in re.findall(r"^### (.*?)\n\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
}
DESCRIBED = [name for name in NAMES if name in SECTIONS]


def test_every_strategy_has_trace_and_cost_in_the_table_and_is_spoken_of_in_the_page():
    assert sorted(TABLE) == NAMES
    assert [name for name in NAMES if PAGE.count(f"`{name}`") < 2 and name not in SECTIONS] == []
    assert len(DESCRIBED) >= 8


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_section_has_the_trace_and_the_cost_of_the_table_says_when_to_use_it_and_what_it_needs(name):
    text = SECTIONS[name]
    trace, cost = TABLE[name].split(" | ")
    assert trace in text
    if "with k steps" in text:  # a formula in k
        (a, b, g) = map(int, re.search(r"\((\d+) \+ (\d+)k\)d \+ (\d+)g", text).groups())
        steps = int(re.search(r"^steps: (\d+)", (ROOT / "conf" / "strategy" / f"{name}.yaml").read_text(), re.MULTILINE)[1])
        assert f"{a + b * steps}d + {g}g" == cost
    else:
        assert cost in text
    assert re.search(r"^- Use ", text, re.MULTILINE)
    assert "ρ" in text
    strategy = plain_strategy_of(choose("strategy", plain(composed(f"strategy={name}").strategy)))
    assert ("needs second derivatives" in " ".join(text.split())) >= strategy.differentiates_gradients
