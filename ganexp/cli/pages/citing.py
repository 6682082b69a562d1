"""How ganexp and the parts of a run are cited. A part's paper is named in the first comment of its option file."""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ganexp.cli.options import option
from ganexp.config.defaults import PACKAGE, conf_folder
from ganexp.config.plugins import conf_folders
from ganexp.config.schema import GROUPS, LISTS
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import read_document


def bibtex(configs: Iterable[Mapping[str, Any]], folders: Iterable[Path] = ()) -> str:
    """Return BibTeX entries of ganexp and of the papers of all parts that are used, each once.

    Args:
        configs: The configurations of runs, or as much of them as is known.
        folders: Run folders, for the presets that their commands name.
    """
    ganexp = (
        f"@software{{ganexp,\n  title = {{ganexp: a config-driven laboratory for the update strategies of GAN training}},\n"
        f"  author = {{{{The ganexp authors}}}},\n  version = {{{version('ganexp')}}},\n  year = {{2026}}\n}}"
    )
    chosen = [*(choice for folder in folders for choice in _presets(folder))]
    chosen += [choice for config in configs for choice in _choices(config)]
    keys = (key for group, name in dict.fromkeys(chosen) for key in cited_by(group, name))
    return "\n\n".join([ganexp, *(papers()[key] for key in dict.fromkeys(keys))])


@functools.cache
def papers() -> dict[str, str]:
    """Return the entries of papers.bib by their keys."""
    text = (PACKAGE / "papers.bib").read_text("utf-8")
    return {entry[1]: entry[0] for entry in re.finditer(r"^@\w+\{(\S+),\n.*?^\}$", text, re.M | re.S)}


def reference(entry: str) -> str:
    """Return how texts name a paper: `Lin 2017`, `Lim & Ye 2017`, or `Mao et al. 2017`."""
    authors, year = (re.search(rf"^  {field} = {{(.*)}},?$", entry, re.M) for field in ("author", "year"))
    assert authors, entry
    assert year, entry
    surnames = [author.partition(",")[0] for author in authors[1].split(" and ")]
    return f"{' & '.join(surnames) if len(surnames) < 3 else f'{surnames[0]} et al.'} {year[1]}"


def cited_by(group: str, name: str) -> list[str]:
    """Return the keys of the papers that an option's first comment names; of two with one reference, the one it tells of."""
    is_name = re.fullmatch(r"[\w.-]{1,99}", name)  # a file may claim anything, and this is looked up in folders
    chosen = option(group, name, [conf_folder(), *conf_folders()]) if is_name else None
    text = f"{name} {chosen.meaning}" if chosen else ""
    return [
        key
        for key, entry in papers().items()
        if re.search(rf"(?<!\w){re.escape(reference(entry))}(?!\w)", text) and key.partition("-")[2] in text.lower()
    ]


def _choices(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the options that a configuration has chosen, each with its group, nested ones too."""
    for group in GROUPS:
        node = config.get(group)
        if isinstance(node, Mapping):
            yield from ((group, str(name)) for name in (node if group in LISTS else _names(node)))
    evaluation = config.get("evaluation")
    if isinstance(evaluation, Mapping) and evaluation.get("protocol"):
        yield "evaluation.protocol", str(evaluation["protocol"])


def _names(node: Mapping[str, Any]) -> Iterator[str]:
    """Return the name of an option, and those of options of its group that are nested in it."""
    if isinstance(node.get("name"), str):
        yield node["name"]
    for inner in node.values():
        if isinstance(inner, Mapping):
            yield from _names(inner)


def _presets(folder: Path) -> list[tuple[str, str]]:
    """Return the experiments that the command of a run names."""
    command = str(read_document(RunFolder(folder).provenance).get("command"))
    return [("experiment", name) for names in re.findall(r"\bexperiment=([\w,]+)", command) for name in names.split(",")]
