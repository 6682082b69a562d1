"""How names from anywhere, of files and from files, and errors are shown in a terminal, a log or a page."""


def printable(text: object) -> str:
    """Return a text on one line, with unprintable characters, such as terminal control characters, as `repr` writes them."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(text))


def one_line(error: BaseException) -> str:
    """Return what an error says, to stand within a sentence: its first line, or all where that announces more, without a stop.

    At most 200 characters are returned.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join((" ".join(lines) if lines[0].endswith(":") else lines[0]).split())[:200].rstrip(".: ")
