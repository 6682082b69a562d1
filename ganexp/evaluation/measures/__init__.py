"""The measures, each in a file of its own, by whose name `evaluation.measures` calls it."""

import importlib
import pkgutil
from typing import Any

from ganexp.evaluation.base import Measure


def _measure_in(name: str) -> Measure[Any]:
    module = importlib.import_module(f"{__name__}.{name}")
    found = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Measure)]
    (kind,) = (one for one in found if one.__module__ == module.__name__)
    return kind()


MEASURES: dict[str, Measure[Any]] = {
    measure.name: measure
    for measure in sorted((_measure_in(file.name) for file in pkgutil.iter_modules(__path__)), key=lambda one: one.rank)
}
"""All of them by name, in the order of their ranks."""
