"""Writes the report of a watched loop as text, from its JSON values."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any


def text(report: Mapping[str, Any]) -> str:
    """Return the trace, the rule, the costs and the faults, line by line."""
    lines = [f"Watched {report['iterations']} iteration{'s' * (report['iterations'] != 1)}."]
    lines += [f"  trace   {_shortened(letters)}" for letters in dict.fromkeys(report["traces"])]
    lines += _rule(report)
    lines += [f"  cost    {cost}" for cost in [*_passes(report["costs"]), *_counted(report), *map(_wait, report["waits"])]]
    if report["compiled"]:
        lines.append("  note    compiled networks run uncompiled while they are watched, so that they may round differently")
    lines += [
        f"  fault   {place}: {effect}; {remedy}" for _, place, effect, remedy in (fault.values() for fault in report["faults"])
    ]
    if not report["faults"]:
        lines.append("  faults  none" if report["iterations"] else "  faults  none seen, without a complete iteration")
    return "\n".join(lines + _another_rule(report))


def _shortened(letters: str) -> str:
    """Return a trace in which letters that repeat four times or more in a row, such as many steps of D, are written once."""
    return re.sub(r"(?<!\S)((?:\S+ ){1,8}?)\1{3,}", lambda match: _times(match[1], match[0]), f"{letters} ").rstrip()


def _times(part: str, all_of_them: str) -> str:
    return f"({part.rstrip()}) × {len(all_of_them) // len(part)} "


def _rule(report: Mapping[str, Any]) -> list[str]:
    if report["rule"]:
        kin = f" ({report['class']})" if report["class"] else ""
        lines = [f"  rule    {report['rule']}{kin}", *([f"          {report['command']}"] if report["command"] else [])]
    else:
        near = f"; the nearest is {report['nearest']}" if report["nearest"] else ""
        near += f", as {', '.join(report['candidates'])} do" if report["candidates"] else ""
        lines = [f"  rule    not identified: {report['why']}{near}"]
    lines += [f"          {report['checked']}"] * bool(report["checked"])
    lines += [f"          before it: {report['earlier']}"] * bool(report["earlier"])
    lines += [f"          left out of the command: {beside}" for beside in report["left_out"]] * bool(report["rule"])
    return lines + [
        f"          {role}'s weights are averaged in a further copy: see average=ema" for role in report["averaged"]
    ]


def _another_rule(report: Mapping[str, Any]) -> list[str]:
    """Return the lines that put another rule in the place of a sound loop's; the functions are for the user to write."""
    if not report["arguments"] or report["faults"]:
        return []
    rule = "detach" if report["rule"] == "extragradient" else "Extragradient()"
    return [
        f"  try     game = ganexp.Game({', '.join(report['arguments'])}, generate=…, d_loss=…, g_loss=…)",
        f"          step = ganexp.Step(game, ganexp.strategies.{rule}), and step(batches) for each iteration",
        "          (another rule in this script: docs/your_own_trainer.md)",
    ]


def _passes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    total = sum(row["ms"] for row in rows)
    if not total:
        return []
    shares = Counter[str]()
    for row in rows:
        shares[row["what"]] += row["ms"] / total
    lines = [", ".join(f"{what} {share:.0%}" for what, share in shares.items()) + f" of {total:.1f} ms (watched)"]
    operations, wasted = (sum(row[which] for row in rows) for which in ("operations", "wasted"))
    if wasted:
        lines.append(f"{wasted / operations:.0%} of the operations are thrown away")
    return [*lines, *dict.fromkeys(f"{row['what']}: {row['remark']}" for row in rows if row["remark"])]


def _counted(report: Mapping[str, Any]) -> list[str]:
    if not report["costs"]:
        return []
    rows = [{"strategy": "this loop", **report}, *report["instead"]]
    table = [
        f"{row['strategy']:<10} {short(row['operations'])} operations, {short(row['activations'])}B of activations at the peak"
        for row in rows
    ]
    if report["instead"]:
        names = [row["strategy"] for row in report["instead"]]
        return [*table, f"{', '.join(names)}: counted on copies of these networks, not timed"]
    return [*table, f"other strategies were not counted: {report['uncounted']}"] if report["uncounted"] else table


def _wait(wait: Mapping[str, Any]) -> str:
    often = "in each iteration" if wait["per_iteration"] == 1 else f"{wait['per_iteration']:.2g} times per iteration"
    read = ".item(), .cpu() or float() reads a value here"
    return f"{wait['place']}: {read} {often}, for which the CPU waits if it is on a GPU; read it less often"


def short(count: float) -> str:
    """Return a count with three digits and the prefix of its power of 1,000, to stand before a unit: `37.9 k`."""
    for unit in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} T"
