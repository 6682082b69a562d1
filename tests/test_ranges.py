"""Ranges in annotations are kept by whoever calls, in the words that the command line uses."""

import inspect
import math
import pkgutil
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import given, settings
from hypothesis import strategies as st

from ganexp.config.parsing import check_type
from ganexp.ranges import checked
from tests.composing import CONF

Open = Annotated[float, Gt(0), Lt(1)]
Closed = Annotated[int, Ge(-3), Le(5)]
Word = Literal["x", "y"]


@checked
def function(
    a: Open = 0.5,
    *,
    b: Closed = 0,
    pair: tuple[Open, Open] = (0.5, 0.5),
    c: Literal[1, 3] = 1,
    d: object = None,
    e: Sequence[Word] = (),
):
    """Return what it was given."""
    return a, b, pair, c, d, tuple(e)


def test_what_is_within_passes_through():
    assert function(0.1, b=5, pair=(0.2, 0.3), c=3, d="x", e=["y"]) == (0.1, 5, (0.2, 0.3), 3, "x", ("y",))
    assert function.__doc__ == "Return what it was given."
    assert list(inspect.signature(function).parameters) == ["a", "b", "pair", "c", "d", "e"]


@settings(deadline=None)
@given(st.floats() | st.integers(-10, 10).map(float), st.integers(-10, 10), st.integers(0, 4))
def test_both_ways_in_refuse_the_same_values_in_the_same_words(a, b, c):
    for name, value, hint in (("a", a, Open), ("b", b, Closed), ("c", c, Literal[1, 3]), ("pair", (0.5, a), tuple[Open, Open])):
        said = []
        for attempt in (
            lambda name=name, value=value: function(**{name: value}),
            lambda name=name, value=value, hint=hint: check_type(name, value, hint),
        ):
            try:
                attempt()
                said.append(None)
            except ValueError as error:
                said.append(str(error).partition("; got ")[0])
        assert said[0] == said[1], (name, value)


def test_the_sentence_names_the_argument_and_its_value():
    with pytest.raises(ValueError, match=r"^a must be less than 1; got 7$"):
        function(7)
    with pytest.raises(ValueError, match=r"^b needs an integer; got 1\.5$"):
        function(b=1.5)
    with pytest.raises(ValueError, match=r"^b needs an integer; got True$"):
        function(b=True)
    with pytest.raises(ValueError, match=r"^e must be x or y; got "):
        function(e=["x", "z"])
    with pytest.raises(ValueError, match=r"^pair needs a finite number; got \(0\.5, nan\)$"):
        function(pair=(0.5, math.nan))


TARGETS = sorted({name for path in CONF.glob("*/*.yaml") for name in re.findall(r"_target_: (ganexp\.\S+)", path.read_text())})
OF_THE_RUN = ("latent_dim", "classes", "d_steps", "g_steps", "iterations")
"""Numbers that a part is given by the run, which has checked them."""


@pytest.mark.parametrize("name", TARGETS)
def test_every_number_has_a_range_that_is_kept(name):
    part = pkgutil.resolve_name(name)
    call = part.__init__ if inspect.isclass(part) else part
    hints = getattr(call, "__annotations__", {})
    assert not [key for key, hint in hints.items() if hint in (int, float) and key not in OF_THE_RUN]
    if any(re.search("Annotated|Literal", str(hint)) for hint in hints.values()):
        assert call.__code__ is function.__code__, f"{name} is not @checked"
