"""How ganexp is cited."""

from importlib.metadata import version


def bibtex() -> str:
    """Return a BibTeX entry of ganexp."""
    return (
        f"@software{{ganexp,\n  title = {{ganexp: a config-driven laboratory for the update strategies of GAN training}},\n"
        f"  author = {{{{The ganexp authors}}}},\n  version = {{{version('ganexp')}}},\n  year = {{2026}}\n}}"
    )
