"""Writes the report of a watched loop as text or as a table in HTML, from its JSON values."""

import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

LINES = 12
"""The most lines of a report, unless all are asked for."""

LARGEST = 3
"""How many lines that wait, and how many kinds of waste, are in a report, unless all are asked for."""

SMALLEST = 0.005
"""The least share of the operations that a kind of waste has in a report, unless all are asked for."""

LINE_OF_A_FILE = re.compile(r"(?<![\w/.])([\w/.-]+\.py):(\d+)")

NOT_LOOKED_AT = "whether the networks are large enough, the learning rates fit, and training converges"


def text(report: Mapping[str, Any], verbose: bool = False) -> str:
    """Return the rule, the faults, the trace and the costs, line by line: at most twelve lines, or all with `verbose`."""
    lines = [_title(report)]
    for label, words in _entries(report, verbose):
        first, *others = words.split("\n")
        lines += [f"  {label:<7} {first}", *(f"          {line}" for line in others)]
    if not verbose and len(lines) > LINES:
        rest = len(lines) - LINES + 1
        lines[LINES - 1 :] = [f"  …       {rest} further lines: ganexp watch --verbose, or report.text(verbose=True)"]
    return "\n".join(lines)


def table(report: Mapping[str, Any]) -> str:
    """Return the report as a table in HTML, in which lines of files are links."""
    rows = "".join(
        f'<tr><th style="text-align: left; vertical-align: top">{label}</th>'
        f'<td style="text-align: left; white-space: pre-wrap">{_linked(words)}</td></tr>'
        for label, words in _entries(report, verbose=False)
    )
    return f"<table><caption>{_title(report)}</caption>{rows}</table>"


def _linked(words: str) -> str:
    link = r'<a href="\1#L\2">\1:\2</a>'
    return LINE_OF_A_FILE.sub(link, html.escape(words, quote=False))


def _title(report: Mapping[str, Any]) -> str:
    return f"Watched {report['iterations']} iteration{'s' * (report['iterations'] != 1)}."


def _entries(report: Mapping[str, Any], verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield what the report says, in the order of its weight, each with the label before it."""
    yield "rule", "\n".join(_rule(report))
    for fault in report["faults"]:
        yield "fault", f"{fault['place']}: {fault['effect']}; {fault['remedy']}"
    if not report["faults"]:
        yield "faults", _no_faults(report, verbose)
    if report["compiled"]:
        yield "note", "compiled networks run uncompiled while they are watched, so that they may round differently"
    yield from (("trace", trace) for trace in _traces(report, verbose))
    yield from (("cost", cost) for cost in _costs(report, verbose))
    yield from (("waste", waste) for waste in _wastes(report["costs"], verbose))
    yield from (("wait", _wait(wait)) for wait in report["waits"][: None if verbose else LARGEST])
    if report["arguments"] and not report["faults"]:
        yield "try", _another_rule(report)


def _no_faults(report: Mapping[str, Any], verbose: bool) -> str:
    """Return what was looked at without finding a fault, and what was not looked at."""
    looked_at, without = report.get("looked_at", []), defaultdict(list)
    for what, why in report.get("not_looked_at", {}).items():
        without[why].append(what)
    words = f"none of {len(looked_at)} kinds (docs/watching.md)" if looked_at else "none found"
    words += f": {', '.join(looked_at)}" * (verbose and bool(looked_at))
    words += ", without a complete iteration" * (not report["iterations"])
    reasons = "".join(f"{', '.join(kinds)} ({why}); " for why, kinds in without.items())
    return f"{words}; not looked at: {reasons}{NOT_LOOKED_AT} (docs/trouble.md)"


def _traces(report: Mapping[str, Any], verbose: bool) -> list[str]:
    """Return the trace of a typical iteration with the names of numbered letters, or those of all iterations."""
    names = ", ".join(f"{letter} = {name}" for letter, name in report["letters"].items())
    traces = report["traces"] if verbose else [report["typical"]]
    return [_shortened(trace) + f"   ({names})" * bool(names) for trace in dict.fromkeys(traces)]


def _shortened(letters: str) -> str:
    """Return a trace in which letters that repeat four times or more in a row, such as many steps of D, are written once."""

    def times(match: re.Match[str]) -> str:
        return f"({match[1].rstrip()}) × {len(match[0]) // len(match[1])} "

    return re.sub(r"(?<!\S)((?:\S+ ){1,8}?)\1{3,}", times, f"{letters} ").rstrip()


def _rule(report: Mapping[str, Any]) -> list[str]:
    if report["rule"]:
        kin = f" ({report['class']})" if report["class"] else ""
        lines = [f"{report['rule']}{kin}" + (f": {report['command']}" if report["command"] else "")]
    else:
        near = f"; the nearest is {report['nearest']}" if report["nearest"] else ""
        near += f", as {', '.join(report['candidates'])} do" if report["candidates"] else ""
        lines = [f"not identified: {report['why']}{near}"]
    lines += [report["checked"]] * bool(report["checked"])
    lines += [f"before: {report['earlier']}"] * bool(report["earlier"])
    lines += [f"left out of the command: {beside}" for beside in report["left_out"]] * bool(report["rule"])
    return lines + [f"{role}'s weights are averaged in a further copy: see average=ema" for role in report["averaged"]]


def _another_rule(report: Mapping[str, Any]) -> str:
    """Return the step that puts another rule in the place of a sound loop's; the functions are for the user to write."""
    rule = "detach" if report["rule"] == "extragradient" else "Extragradient()"
    game = f"ganexp.Game({', '.join(report['arguments'])}, generate=…, d_loss=…, g_loss=…)"
    return f"another rule here: ganexp.Step({game}, ganexp.strategies.{rule}): docs/your_own_trainer.md"


def _costs(report: Mapping[str, Any], verbose: bool) -> Iterator[str]:
    if not report["costs"]:
        return
    own = f"{short(report['operations'])} operations in an iteration, {short(report['activations'])}B of activations"
    counted = ((row["strategy"], short(row["operations"]).rstrip(), short(row["activations"])) for row in report["instead"])
    others = ", ".join(f"{strategy} {operations} and {activations}B" for strategy, operations, activations in counted)
    yield f"{own} at the peak" + f"; on copies of these networks: {others}" * bool(others)
    if verbose and report["uncounted"]:
        yield f"other strategies are not counted beside it: {report['uncounted']}"
    total = sum(row["ms"] for row in report["costs"])
    if verbose and total:
        shares = Counter[str]()
        for row in report["costs"]:
            shares[row["what"]] += row["ms"] / total
        yield ", ".join(f"{what} {share:.0%}" for what, share in shares.items()) + f" of {total:.1f} ms (watched)"


def _wastes(rows: Sequence[Mapping[str, Any]], verbose: bool) -> list[str]:
    """Return the kinds of operations that are thrown away, the largest share first, with their lines."""
    total = sum(row["operations"] for row in rows)
    kinds: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["remark"]:
            kinds[row["remark"]].append(row)
    wastes: list[str] = []
    for remark, alike in sorted(kinds.items(), key=lambda kind: -sum(row["wasted"] for row in kind[1])):
        places = ", ".join(dict.fromkeys(f"{row['what']} at {row['place']}" for row in alike))
        share = sum(row["wasted"] for row in alike) / total if total else 0
        if verbose or (share >= SMALLEST and len(wastes) < LARGEST):
            wastes.append(f"{share:.0%} of the operations, {places}: {remark}")
    return wastes


def _wait(wait: Mapping[str, Any]) -> str:
    read = ".item(), .cpu() or float() reads a value here"
    return f"{wait['place']}: {read} {often(wait['per_iteration'])}, for which the CPU waits if it is on a GPU"


def often(rate: float) -> str:
    """Return a rate per iteration in words: `in each iteration`, `once per 1,000 iterations`."""
    exact = Fraction(rate).limit_denominator(100_000)
    count, period = exact.numerator, exact.denominator
    if exact == 1:
        return "in each iteration"
    times = "once" if count == 1 else f"{count:,} times"
    return f"{times} per {period:,} iterations" if period > 1 else f"{times} per iteration"


def short(count: float) -> str:
    """Return a count with three digits and the prefix of its power of 1,000, to stand before a unit: `37.9 k`."""
    for unit in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} T"
