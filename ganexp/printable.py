"""Names from anywhere, of files and from files, as a terminal, a log or a page shows them."""


def printable(text: object) -> str:
    """Return a text in one line: what has no glyph, such as the control characters of a terminal, as `repr` writes it."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in str(text))
