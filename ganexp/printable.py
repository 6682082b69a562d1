"""How names from anywhere, of files and from files, are shown in a terminal, a log or a page."""


def printable(text: object) -> str:
    """Return a text on one line, with unprintable characters, such as terminal control characters, as `repr` writes them."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(text))
