"""The library that computes some figures, imported when a measure needs it."""

import importlib
from typing import Any

from ganexp.evaluation.errors import EvaluationError


def needed(module: str) -> Any:
    """Import a module of torch-fidelity.

    Raises:
        EvaluationError: torch-fidelity is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EvaluationError(f"this needs {module.partition('.')[0]}: pip install torch-fidelity") from error
