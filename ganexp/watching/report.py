"""The report of a watched loop as text, from the plain values of its JSON."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any


def text(seen: Mapping[str, Any]) -> str:
    """Return the trace, the rule, the costs and the faults, line by line."""
    lines = [f"Watched {seen['iterations']} iteration{'s' * (seen['iterations'] != 1)}."]
    lines += [f"  trace   {_shortened(one)}" for one in dict.fromkeys(seen["traces"])]
    lines += _rule(seen)
    lines += [f"  cost    {one}" for one in [*_passes(seen["costs"]), *_counted(seen), *map(_wait, seen["waits"])]]
    if seen["compiled"]:
        lines.append("  note    compiled networks run uncompiled while they are watched, so that they may round differently")
    lines += [f"  fault   {place}: {effect}; {remedy}" for _, place, effect, remedy in (one.values() for one in seen["faults"])]
    if not seen["faults"]:
        lines.append("  faults  none" if seen["iterations"] else "  faults  none seen, without a complete iteration")
    return "\n".join(lines)


def _shortened(trace: str) -> str:
    """Return a trace with what stands in it four times or more in a row written once, such as many steps of D."""
    return re.sub(r"(?<!\S)((?:\S+ ){1,8}?)\1{3,}", lambda found: _times(found[1], found[0]), f"{trace} ").rstrip()


def _times(one: str, all_of_them: str) -> str:
    return f"({one.rstrip()}) × {len(all_of_them) // len(one)} "


def _rule(seen: Mapping[str, Any]) -> list[str]:
    if seen["rule"]:
        kin = f" ({seen['class']})" if seen["class"] else ""
        lines = [f"  rule    {seen['rule']}{kin}", *([f"          {seen['command']}"] if seen["command"] else [])]
    else:
        near = f"; the nearest is {seen['nearest']}" if seen["nearest"] else ""
        near += f", as {', '.join(seen['candidates'])} do" if seen["candidates"] else ""
        lines = [f"  rule    not identified: {seen['why']}{near}"]
    lines += [f"          {seen['checked']}"] * bool(seen["checked"])
    return lines + [f"          {one}'s weights are averaged in a further copy: see average=ema" for one in seen["averaged"]]


def _passes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    total = sum(one["ms"] for one in rows)
    if not total:
        return []
    shares = Counter[str]()
    for one in rows:
        shares[one["what"]] += one["ms"] / total
    lines = [", ".join(f"{what} {share:.0%}" for what, share in shares.items()) + f" of {total:.1f} ms (watched)"]
    operations, wasted = (sum(one[which] for one in rows) for which in ("operations", "wasted"))
    if wasted:
        lines.append(f"{wasted / operations:.0%} of the operations are thrown away")
    return [*lines, *dict.fromkeys(f"{one['what']}: {one['remark']}" for one in rows if one["remark"])]


def _counted(seen: Mapping[str, Any]) -> list[str]:
    if not seen["costs"]:
        return []
    rows = [{"strategy": "this loop", **seen}, *seen["instead"]]
    table = [
        f"{one['strategy']:<10} {short(one['operations'])} operations, {short(one['activations'])}B of activations at the peak"
        for one in rows
    ]
    if seen["instead"]:
        names = [one["strategy"] for one in seen["instead"]]
        return [*table, f"{', '.join(names)}: counted on copies of these networks, not timed"]
    return [*table, f"other strategies were not counted: {seen['uncounted']}"] if seen["uncounted"] else table


def _wait(one: Mapping[str, Any]) -> str:
    often = "in each iteration" if one["per_iteration"] == 1 else f"{one['per_iteration']:.2g} times per iteration"
    read = ".item(), .cpu() or float() reads a value here"
    return f"{one['place']}: {read} {often}, for which the CPU waits if it is on a GPU; read it less often"


def short(count: float) -> str:
    """Return a count with three digits and the letter of its power of 1,000, for a unit to follow."""
    for unit in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} T"
