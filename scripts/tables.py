"""Write the tables of README.md and docs/ that list parts, keys and what they measure, from what these declare themselves.

    python scripts/tables.py          # write them
    python scripts/tables.py --check  # name the stale ones, and exit with 1 if there are any

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. NAME is a function of this file, or a group of conf/, whose
options are then listed with the first comments of their files. Traces and costs of strategies and the operations of recipes are
counted, which takes a minute.
"""

if __name__ == "__main__":
    from ganexp.cli import process

    process.begin()  # while torch is imported

import argparse
import functools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benching import paired_analysis
from benching.results import Results
from benchmarks import hours
from ganexp import compose
from ganexp.cli.options import options, primary
from ganexp.config.assemble import plain_strategy_of
from ganexp.config.choices import choose
from ganexp.config.defaults import options_in
from ganexp.config.metrics import MEASURING, measures_of, measures_offered
from ganexp.config.plain import flat, plain
from ganexp.config.targets import target
from ganexp.logging.keys import KEYS
from ganexp.strategies import Strategy
from measuring.passes import in_passes
from measuring.tracing import trace
from published import pacgan as pacgan_of
from published import pairing as pairing_of

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"
FOLDERS = [CONF]
"""Where options are looked for."""
USUAL = ("detach", "g_first", "joint", "resample", "extragradient")
PLACE = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
Rows = Iterator[Sequence[str]]
"""Rows of a table, of which the first is its head."""


def groups() -> Rows:
    """Yield every group with its options, the default first."""
    yield "group", "what it is", "options"
    ours = primary(FOLDERS)
    for group, default in ours.groups.items():
        names = sorted((option.name for option in options(group, FOLDERS)), key=lambda name: (name != default, name))
        yield f"`{group}`", ours.meanings[group], ", ".join(_marked(name, default) for name in names)


def members(group: str) -> Rows:
    """Yield every option of a group with what its file says of it."""
    yield f"`{group}=`", "what it is", "settings"
    for option in options(group, FOLDERS):
        settings = ", ".join(f"`{group}.{key}={value}`" for key, value in option.settings.items())
        yield f"`{option.name}`", re.sub(r"\b_|_\b", r"\\_", option.meaning), settings  # as in ._target_=, else emphasis


def strategies() -> Rows:
    """Yield every strategy, the cheapest first, with its trace, its cost and what its file says of it."""
    yield "`strategy=`", "one iteration at `d_steps=1 g_steps=1`", "cost", "in words"
    default = primary(FOLDERS).groups["strategy"]
    said = {option.name: option.meaning for option in options("strategy", FOLDERS)}
    for name, (d, g) in _costs().items():
        yield _marked(name, default), f"`{trace(_strategy(name))}`", f"{d}d + {g}g", said[name]


def needs() -> Rows:
    """Yield what strategies and wrappers need of a game of functions, and which ask for nothing."""
    yield "`Game` is given", "strategies", "wrappers"
    parts = {"strategy": {one.name: _strategy(one.name) for one in options("strategy", FOLDERS)}, "wrapper": _wrappers()}
    refused = {"scores", "discriminator"}
    given = {
        "nothing further": set[str](),
        "`sample` beside `generate`": {"latents"},
        "`zero_sum`, true": {"zero_sum"},
        "`terms`": {"terms"},
        "refused: take `ganexp.GAN`": refused,
    }
    for heading, asked in given.items():
        cells = []
        for kind in parts.values():
            needed = {name: refused if refused & {*part.needs} else {*part.needs} for name, part in kind.items()}
            cells.append(", ".join(f"`{name}`" for name, need in needed.items() if need == asked))
        yield heading, *cells
    twice = [name for name, one in parts["strategy"].items() if one.differentiates_gradients and not refused & {*one.needs}]
    yield "networks that are not compiled, in one process", ", ".join(f"`{name}`" for name in twice), ""


def usual_strategies() -> Rows:
    """Yield the strategies that textbooks and projects use most, as `strategies` has them."""
    head, *rows = strategies()
    yield head
    yield from (row for row in rows if row[0].split("`")[1] in USUAL)


def pacgan() -> Rows:
    """Yield PacGAN's trials, summed up, beside the published figures."""
    yield from _rows(pacgan_of.means(pacgan_of.results(ROOT / "docs" / "packing.csv")))


def pairing() -> Rows:
    """Yield R3GAN's ablation, summed up, beside the published figures."""
    yield from _rows(pairing_of.means(pairing_of.results(ROOT / "docs" / "claims" / "claim_13.csv")))


def momentum_adam() -> Rows:
    """Yield the comparisons of the paired trial of the momentum with Adam."""
    yield from _rows(paired_analysis.rows(_comparisons(), "adam"))


def momentum_sgd() -> Rows:
    """Yield the comparisons of the paired trial of the momentum with SGD."""
    yield from _rows(paired_analysis.rows(_comparisons(), "sgd"))


def momentum_adam_described() -> Rows:
    """Yield what decides nothing in the paired trial of the momentum with Adam."""
    yield from _rows(paired_analysis.described(_trial(), "adam"))


def momentum_sgd_described() -> Rows:
    """Yield what decides nothing in the paired trial of the momentum with SGD."""
    yield from _rows(paired_analysis.described(_trial(), "sgd"))


def momentum_edges() -> Rows:
    """Yield how many of the 100 runs on edges to digits end below a distance of 1."""
    yield from _rows(paired_analysis.near(_trial(), "edges_l1_10", "adam", 1.0))


def costs() -> Rows:
    """Yield the cost of every strategy with redundant gradients and without, the cheapest first."""
    yield "strategy", "redundant gradients on", "off (default)"
    for name, (d, g) in _costs().items():
        more_d, more_g = in_passes(_strategy(name), redundant_gradients=True)
        yield f"`{name}`", f"{more_d}d + {more_g}g", f"{d}d + {g}g"


def log() -> Rows:
    """Yield the keys of every run's rows."""
    yield "key", "what it is"
    yield from ((f"`{key}`", measure.meaning) for key, measure in KEYS.items())


def measured() -> Rows:
    """Yield the measures of losses, augmentations, generators and terms."""
    yield "chosen by", "key", "what it is"
    for group in MEASURING:
        for option in options(group, FOLDERS):
            for key, measure in measures_of(option.node, group=group).items():
                yield f"`{group}={option.name}`", f"`{key}`", measure.meaning
    for name, node in options_in("term", FOLDERS).items():
        kind: Any = target(node, f"term.{name}")
        yield f"`term=[{name}]`", f"`terms/{name}`", kind.measures.meaning


def figures() -> Rows:
    """Yield the figures of an evaluation."""
    yield "measure", "key", "best", "what it is"
    for name, measure in sorted(measures_offered().items(), key=lambda one: one[1].rank):
        yield from ((f"`{name}`", f"`{key}`", one.best, one.meaning) for key, one in measure.keys.items())


def protocols() -> Rows:
    """Yield a column for every protocol, with what it sets, and what its file says of figures that compare."""
    group, remarks = "evaluation.protocol", ("comparable", "not comparable", "source")
    columns: list[Sequence[str]] = [("", "what it is", "sets", *remarks)]
    for option in options(group, FOLDERS):
        said: dict[str, list[str]] = {}
        for line in (CONF / group / f"{option.name}.yaml").read_text().splitlines():
            if begun := re.match(r"# ([a-z ]+): (.*)", line):
                said[begun[1]] = [begun[2]]
            elif said and line.startswith("#   "):
                said[next(reversed(said))].append(line[4:])
        (measures,) = option.node["defaults"]
        sets = [f"`{key}={value}`" for key, value in flat(option.node) if key not in ("defaults", group)]
        sets.insert(0, f"`measure=[{','.join(measures['override /measure'])}]`")
        columns.append((f"`{option.name}`", option.meaning, "<br>".join(sets), *(" ".join(said[one]) for one in remarks)))
    yield from zip(*columns, strict=True)


def recipes() -> Rows:
    """Yield the recipes with a published figure, and how long each should take at an assumed speed."""
    yield "`experiment=`", "iterations", "Gflop each", "hours", "published"
    published = hours.recipes()
    yield from ((f"`{name}`", *counted, published[name]) for name, *counted in hours.estimates(50e12))


TABLES = {
    one.__name__: one
    for one in (
        groups,
        strategies,
        costs,
        log,
        measured,
        figures,
        protocols,
        recipes,
        usual_strategies,
        needs,
        pacgan,
        pairing,
        momentum_adam,
        momentum_sgd,
        momentum_adam_described,
        momentum_sgd_described,
        momentum_edges,
    )
}


@functools.cache
def table(name: str) -> str:
    """Return a table as Markdown."""
    head, *rows = TABLES[name]() if name in TABLES else members(name)
    if not rows:
        sys.exit(f"Error: a page asks for the table {name}, which is neither one of {', '.join(TABLES)} nor a group of conf/.")
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def filled(page: str) -> tuple[str, list[str]]:
    """Return a page with updated tables, and the names of those that were stale."""
    stale = [name for _, name, text, _ in PLACE.findall(page) if text != table(name)]
    return PLACE.sub(lambda found: found[1] + table(found[2]) + found[4], page), stale


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a table is stale")
    parser.add_argument("pages", nargs="*", type=Path, default=[ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
    options = parser.parse_args(arguments)
    failed = False
    for path in options.pages:
        page, stale = filled(path.read_text())
        if options.check:
            failed |= bool(stale)
            print("".join(f"{path.name}: the table {name} is stale: python scripts/tables.py\n" for name in stale), end="")
        elif stale:
            path.write_text(page)
    sys.exit(failed)


@functools.cache
def _costs() -> dict[str, tuple[int, int]]:
    """Return the passes through D and G of every strategy, the cheapest first."""
    found = {option.name: in_passes(_strategy(option.name)) for option in options("strategy", FOLDERS)}
    return dict(sorted(found.items(), key=lambda item: (sum(item[1]), item[0])))


def _rows(rows: Sequence[Mapping[str, str]]) -> Rows:
    yield [*rows[0]]
    yield from ([*row.values()] for row in rows)


@functools.cache
def _comparisons() -> list[paired_analysis.Comparison]:
    return paired_analysis.compared(_trial())


@functools.cache
def _trial() -> Results:
    return Results(ROOT / "docs" / "momentum.csv")


@functools.cache
def _strategy(name: str) -> Strategy:
    return plain_strategy_of(choose("strategy", plain(compose(f"strategy={name}").strategy)))


def _wrappers() -> dict[str, Strategy]:
    """Return every wrapper at its defaults."""
    made = {}
    for name, node in options_in("wrapper", FOLDERS).items():
        kind: Any = target(node, f"wrapper.{name}")
        made[name] = kind(_strategy("detach"), **{key: value for key, value in node.items() if key != "_target_"})
    return made


def _marked(name: str, default: str) -> str:
    return f"`{name}` (default)" if name == default else f"`{name}`"


if __name__ == "__main__":
    process.run(main)
