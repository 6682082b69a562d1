"""Long lists of like cases, of which a few run in every test and all in CI."""

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], every: int) -> list[Any]:
    """Mark all cases but the first of every so many as slow; a case of several arguments is a tuple."""
    return [
        one if i % every == 0 else pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.slow)
        for i, one in enumerate(cases)
    ]
