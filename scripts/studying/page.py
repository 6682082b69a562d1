"""The study as a page in Markdown, with its figure."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from ganexp.cli.commands.pages.machine import machine
from ganexp.cli.commands.pages.markdown import table
from ganexp.compare.intervals import Interval
from ganexp.compare.ranking import MARKS, Place
from studying import ranks
from studying.courses import Course
from studying.plan import EVALUATIONS, SETTINGS, TUNING_RUNS, Arm
from studying.verdicts import as_block, budgets, conclusions, places

INTRODUCTION = """# Which strategy for which loss?

Every strategy was tuned alike for every loss in every setting: {tuning} runs of half the length, over two learning rates and
two values of the strategy's own coefficient, or two rates and two seeds where it has none. The candidate with the lowest mean
was then trained on {seeds} other seeds, and judged {times} times on the way.

Runs are compared at **equal updates** of both networks, at **equal real images** (`extragradient` draws two batches for an
update) and at **equal time**, by the time of an iteration as measured side by side (below). Each budget is as large as the runs
of all strategies allow; between two evaluations a figure is read from a straight line. `joint` stands for `one_stage` and
`g_first`, and `detach` for `retain_graph` and `reuse_z`: they make [the same updates](strategies.md#three-classes). `lookahead`
and `topk` are around `detach`.

Points are judged by the sliced Wasserstein distance, images by the Fréchet distance in the features of a classifier of the data
(`ganexp features mnist dataset.image_size=16`), 2,000 samples each: lower is better. The networks are small
enough for a CPU: 64 units wide for points, DCGANs without batch norm in D for images of 16×16 pixels.

[low, high] is a 95 % interval over seeds by bootstrap, `*` the best mean in a row, `=` what cannot be told from it at 5 % by
t-tests paired by seed, corrected by Holm for all pairs in the row. A strategy that diverged with one of its seeds is not in the
running, and last in the ranks; its mean is that of its other seeds.

What a GPU would add: networks and runs as large as in publications, colour images (CIFAR-10, stacked MNIST), and enough seeds
to tell apart what `=` leaves open. Times differ there as well, since small networks wait for the host.
"""


@dataclass(frozen=True)
class Study:
    """What was run.

    Args:
        runs: The compared runs of every arm.
        tuned: What each arm was tuned to, in words.
        skipped: Arms whose loss and strategy do not fit together, and why.
        times: By setting and loss, and then by strategy, the time of an iteration relative to `detach`.
        commands: How it is run: the whole, and as examples a search and a comparison.
        hours: How long all runs took, one after another.
    """

    runs: Mapping[Arm, Sequence[Course]]
    tuned: Mapping[Arm, str]
    skipped: Mapping[Arm, str]
    times: Mapping[tuple[str, str], Mapping[str, float]]
    commands: Sequence[str]
    hours: float

    def blocks(self, setting: str) -> dict[str, dict[str, Sequence[Course]]]:
        """Return the runs in a setting, by loss and strategy."""
        found: dict[str, dict[str, Sequence[Course]]] = {}
        for arm, runs in self.runs.items():
            if arm.setting == setting:
                found.setdefault(arm.loss, {})[arm.strategy] = runs
        return found

    @property
    def settings(self) -> list[str]:
        """The settings, in their order."""
        return list(dict.fromkeys(arm.setting for arm in self.runs))

    @property
    def strategies(self) -> list[str]:
        """The strategies, in their order."""
        return list(dict.fromkeys(arm.strategy for arm in self.runs))

    def places(self) -> dict[str, dict[Arm, Place]]:
        """Return where every arm stands, by budget."""
        found: dict[str, dict[Arm, Place]] = {}
        for setting in self.settings:
            for loss, block in self.blocks(setting).items():
                for budget in budgets(block, self.times[setting, loss]):
                    of_block = {Arm(setting, loss, name): place for name, place in places(block, budget).items()}
                    found.setdefault(budget.name, {}).update(of_block)
        return found


def write(study: Study, page: Path) -> None:
    """Write the page, and its figure beside it."""
    page.parent.mkdir(parents=True, exist_ok=True)
    picture = page.with_suffix(".png")
    standing = study.places()
    drawn(study, standing["updates"]).savefig(picture, dpi=100)
    page.write_text(text(study, standing, picture.name))


def text(study: Study, standing: Mapping[str, Mapping[Arm, Place]], picture: str) -> str:
    """Return the page, given where every arm stands by budget."""
    seeds = max(len(runs) for runs in study.runs.values())
    parts = [
        INTRODUCTION.format(tuning=TUNING_RUNS, seeds=seeds, times=EVALUATIONS),
        f"{date.today()}, {machine()}; {study.hours:.1f} hours of one core in all.\n",
        "\n".join(["```bash", *study.commands, "```\n"]),
        "## Conclusions\n",
        _in_short(standing),
        _over_blocks(standing),
        "Loss by loss, at equal updates:\n",
        "\n".join(conclusions(standing["updates"])) + "\n",
        _diverged(study),
        f"![Figures of every strategy relative to those of detach, at equal updates]({picture})\n",
    ]
    for setting in study.settings:
        parts.append(f"## {setting}\n\n{SETTINGS[setting].unit[0].upper()}{SETTINGS[setting].unit[1:]}.\n")
        for budget, places_ in standing.items():
            parts.append(f"At equal {budget}:\n\n{_table({a: p for a, p in places_.items() if a.setting == setting})}")
        times = [
            {"loss": f"`{loss}`"} | {f"`{name}`": f"{study.times[setting, loss][name]:.2f}" for name in block}
            for loss, block in study.blocks(setting).items()
        ]
        parts.append("Time of an iteration, relative to `detach`:\n\n" + table(times))
    tuned = [_said(arm) | {"tuned to": f"`{what}`"} for arm, what in study.tuned.items()]
    parts.append("## Tuned to\n\n" + _at_the_edge(study.tuned) + table(tuned))
    if study.skipped:
        parts.append("## Not run\n\n" + table([_said(arm) | {"why": why} for arm, why in study.skipped.items()]))
    return "\n".join(parts)


def drawn(study: Study, standing: Mapping[Arm, Place]) -> Figure:
    """Draw each strategy's mean and interval relative to the mean of `detach`, a panel for each setting."""
    settings, strategies = study.settings, study.strategies
    figure = Figure(figsize=(10, 2.6 * len(settings)), layout="constrained")
    for axes, setting in zip(figure.subplots(len(settings), 1, squeeze=False)[:, 0], settings, strict=True):
        losses = list(study.blocks(setting))
        for i, strategy in enumerate(strategies):
            at, ends = [], []
            for j, loss in enumerate(losses):
                place, base = (standing.get(Arm(setting, loss, name)) for name in (strategy, "detach"))
                if place and base and place.values and base.values:
                    at.append(j + 0.8 * ((i + 0.5) / len(strategies) - 0.5))
                    own = place.interval or Interval(place.mean, place.mean, place.mean)
                    ends.append((own.low / base.mean, own.middle / base.mean, own.high / base.mean))
            low, middle, high = np.array(ends).reshape(-1, 3).T
            axes.errorbar(
                at, middle, [middle - low, high - middle], fmt="os^Dv<>ph"[i % 9], markersize=5, capsize=2, label=strategy
            )
        axes.axhline(1, color="0.25", linewidth=0.8, linestyle=":")
        axes.set(yscale="log", ylabel="relative to detach", title=f"{setting}: {SETTINGS[setting].unit}, lower is better")
        axes.set_xticks(range(len(losses)), losses)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(strategies))
    return figure


def _in_short(standing: Mapping[str, Mapping[Arm, Place]]) -> str:
    """Say who is first and who is last by mean rank, at which budgets."""
    ends: list[dict[str, list[str]]] = [{}, {}]
    for budget, found in standing.items():
        if blocks := _complete(found):
            mean = ranks.mean_ranks(blocks)
            for end, best in zip(ends, (min(mean.values()), max(mean.values())), strict=True):
                alike = " and ".join(f"`{name}`" for name, rank in mean.items() if math.isclose(rank, best))
                end.setdefault(alike, []).append(budget)
    first, last = ("; ".join(f"{names} at equal {_listed(at)}" for names, at in end.items()) for end in ends)
    return f"**In short.** First by mean rank: {first}. Last: {last}.\n" if first else ""


def _listed(words: Sequence[str]) -> str:
    """Return words as English lists them."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _at_the_edge(tuned: Mapping[Arm, str]) -> str:
    """Say how often the highest rate on offer won, beyond which there may be better ones."""
    highest = {arm: max(SETTINGS[arm.setting].rates, key=float) for arm in tuned}
    taken = {arm: re.search(r"optimizer\.lr=(\S+)", words) for arm, words in tuned.items()}
    won = sum(found is not None and float(found[1]) == float(highest[arm]) for arm, found in taken.items())
    return f"The higher of the two rates won in {won} of {len(tuned)} searches; a still higher one may be better there.\n\n"


def _over_blocks(standing: Mapping[str, Mapping[Arm, Place]]) -> str:
    """Return the mean ranks over blocks at each budget, and what can be told apart."""
    rows: dict[str, dict[str, str | float]] = {}
    said = []
    for budget, found in standing.items():
        if not (blocks := _complete(found)):
            continue
        for name, rank in ranks.mean_ranks(blocks).items():
            rows.setdefault(name, {"strategy": f"`{name}`"})[f"equal {budget}"] = f"{rank:.2f}"
        apart = [
            f"`{_better(pair, blocks)}` and `{_worse(pair, blocks)}` (p = {p:.3f})"
            for pair, p in ranks.differing(blocks).items()
            if p < 0.05
        ]
        told = f"the first better than the second: {', '.join(apart)}" if apart else "no two strategies can be told apart"
        all_alike = f"Friedman's test says p = {ranks.friedman(blocks):.2g}; by pairs, " if len(blocks[0]) > 2 else ""
        said.append(f"- At equal {budget}: {all_alike}{told}.")
    n = len(_complete(next(iter(standing.values()))))
    if not n:
        return "There is no block in which every strategy was run, and so there are no ranks.\n"
    header = f"Mean ranks over {n} blocks, each a loss in a setting; 1 is best:\n"
    tests = "Pairs by Wilcoxon's signed-rank test over blocks, corrected by Holm for all pairs:\n"
    return "\n".join([header, table(list(rows.values())), tests, "\n".join(said), ""])


def _complete(found: Mapping[Arm, Place]) -> list[ranks.Block]:
    """Return the blocks in which every strategy was run."""
    blocks: dict[tuple[str, str], dict[str, Place]] = {}
    for arm, place in found.items():
        blocks.setdefault((arm.setting, arm.loss), {})[arm.strategy] = place
    strategies = list(dict.fromkeys(arm.strategy for arm in found))
    return [as_block({name: block[name] for name in strategies}) for block in blocks.values() if block.keys() >= {*strategies}]


def _better(pair: tuple[str, str], blocks: Sequence[ranks.Block]) -> str:
    return min(pair, key=ranks.mean_ranks([{name: block[name] for name in pair} for block in blocks]).__getitem__)


def _worse(pair: tuple[str, str], blocks: Sequence[ranks.Block]) -> str:
    return pair[pair[0] == _better(pair, blocks)]


def _diverged(study: Study) -> str:
    lost = {arm: sum(run.diverged for run in runs) for arm, runs in study.runs.items()}
    told = ", ".join(f"{n} of `{arm.strategy}` with `{arm.loss}` on {arm.setting}" for arm, n in lost.items() if n)
    runs = sum(len(found) for found in study.runs.values())
    return f"Of {runs} compared runs {sum(lost.values())} diverged{f': {told}' if told else ''}.\n"


def _table(standing: Mapping[Arm, Place]) -> str:
    rows: dict[str, dict[str, str]] = {}
    for arm, place in standing.items():
        mark = "" if place.lost else MARKS.get(place.standing, "")
        lost = f" ({len(place.lost)} diverged)" if place.lost else ""
        rows.setdefault(arm.loss, {"loss": f"`{arm.loss}`"})[f"`{arm.strategy}`"] = f"{place.figure}{lost} {mark}".strip()
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    return table([{column: row.get(column, "") for column in columns} for row in rows.values()])


def _said(arm: Arm) -> dict[str, str]:
    return {"setting": arm.setting, "loss": f"`{arm.loss}`", "strategy": f"`{arm.strategy}`"}
