"""Names and error messages in a form that is safe to print in a terminal, a log or a page."""


def printable(text: object) -> str:
    """Return a text on one line, with unprintable characters, such as terminal control characters, as `repr` writes them."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in str(text))


def one_line(error: BaseException) -> str:
    """Return an error's message for use within a sentence, without a full stop and in at most 200 characters.

    It is the first line, or all lines if the first ends with a colon.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join((" ".join(lines) if lines[0].endswith(":") else lines[0]).split())[:200].rstrip(".: ")
