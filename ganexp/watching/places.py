"""Lines of the user's files, as the report names them: `file:line`, the file relative to the folder where watching began."""

import os
import sys
from traceback import walk_stack
from types import CodeType, FrameType

import torch

NOT_USER_CODE = (os.path.dirname(torch.__file__), os.path.dirname(__file__), "<", os.path.dirname(os.__file__))
INSTALLED = ("site-packages", "dist-packages")

Stack = tuple[tuple[CodeType, int], ...]
"""The functions that are running, the outermost first, each with the instruction that it has reached."""


class _Start:
    """The folder where watching began: a script may change its folder, and a file keeps its name."""

    folder = ""


def begin() -> None:
    """Name files relative to the present folder from now on."""
    try:
        _Start.folder = os.getcwd()
    except OSError:  # it was deleted
        _Start.folder = ""


def stack() -> Stack:
    """Return where the program stands."""
    return tuple((frame.f_code, frame.f_lasti) for frame, _ in walk_stack(sys._getframe(1)))[::-1]


def place() -> str:
    """Return `file:line` of the user's innermost line, or else of an installed package's, other than torch and ganexp."""
    return user_code()[1]


def user_code() -> tuple[FrameType | None, str]:
    """Return the frame of that line, and the line."""
    user, line = None, ""
    for frame, number in walk_stack(sys._getframe(1)):
        file = frame.f_code.co_filename
        own = not any(folder in file for folder in INSTALLED)
        if not file.startswith(NOT_USER_CODE) and (own or not line):
            user, line = frame, f"{named(file)}:{number}"
            if own:
                break
    return user, line or "?"


def named(file: str) -> str:
    """Return a file's path below the folder where watching began, or its whole path; a notebook's cell as `In[3]`.

    Two files of one name are told apart, and terminals and editors open the path.
    """
    cell = _cells().get(file)
    if cell is not None:
        return f"In[{cell}]"
    for folder in INSTALLED:
        if f"{os.sep}{folder}{os.sep}" in file:
            return file.rpartition(f"{os.sep}{folder}{os.sep}")[2]
    return file.removeprefix(os.path.join(_Start.folder, "")) if _Start.folder else file


def _cells() -> dict[str, int]:
    """Return the number of each cell that IPython has run, by the file that it pretends to be."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(getattr(shell, "compile", None), "_filename_map", {})
