"""What an experiment returns, and the rules by which its verdict follows from what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from matplotlib.figure import Figure

from ganexp.compare.intervals import Interval

NOTICEABLE = 1.02
"""A ratio of times below this is not worth a claim."""


class Verdict(StrEnum):
    """What the measurements say of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    DEPENDS = "depends"  # confirmed in some cases, refuted in others
    CONFIRMED_IN_PART = "confirmed in part"  # in some cases, and undecided in the others
    REFUTED_IN_PART = "refuted in part"
    UNDECIDED = "undecided"  # the interval is too wide for any of the others


@dataclass
class Finding:
    """A claim, the verdict and its reason in one sentence, the evidence as Markdown, and figures with captions.

    `where` says of a verdict that holds on one kind of machine what that is; `data` are the rows that it was computed from,
    each with the settings that gave it.
    """

    claim: str
    verdict: Verdict
    reason: str
    evidence: str
    figures: dict[str, Figure] = field(default_factory=dict)
    where: str = ""
    data: Sequence[Mapping[str, object]] = ()

    @property
    def judgement(self) -> str:
        """The verdict as Markdown, with where it holds."""
        return f"**{self.verdict}** {self.where}".strip()


def at_least(bound: float, interval: Interval) -> Verdict:
    """Confirm that a quantity exceeds a bound if its whole interval does, refute it if none of it does."""
    if interval.low > bound:
        return Verdict.CONFIRMED
    return Verdict.REFUTED if interval.high < bound else Verdict.UNDECIDED


def about(factor: float, interval: Interval) -> Verdict:
    """Confirm a claimed speed-up if the measured one is larger, or nearer to it than to none, on a logarithmic scale."""
    return at_least(factor**0.5, interval)


def rule_of(factor: float) -> str:
    """Return the rule of `about` in words."""
    return f"(A speed-up counts as about {factor:g}, or more, from √{factor:g} = {factor**0.5:.4g}.)"


def together(verdicts: Mapping[tuple[str, str], Verdict]) -> tuple[Verdict, str]:
    """Join verdicts, each on a case under a condition, and say which is which if they differ.

    It depends only where some are confirmed and others refuted: cases that are undecided show no difference.
    """
    kinds = list(dict.fromkeys(verdicts.values()))
    if len(kinds) == 1:
        return kinds[0], f"{kinds[0].capitalize()} in every case"
    said = []
    for kind in kinds:
        cases: dict[str, list[str]] = {}
        for (case, condition), verdict in verdicts.items():
            if verdict is kind:
                cases.setdefault(case, []).append(condition)
        in_all = {case: len(found) == sum(name == case for name, _ in verdicts) for case, found in cases.items()}
        named = [case if in_all[case] else f"{case} ({', '.join(found)})" for case, found in cases.items()]
        said.append(f"{kind}: {'; '.join(named)}")
    in_part = {Verdict.CONFIRMED: Verdict.CONFIRMED_IN_PART, Verdict.REFUTED: Verdict.REFUTED_IN_PART}
    decided = [kind for kind in kinds if kind is not Verdict.UNDECIDED]
    joined = in_part[decided[0]] if len(decided) == 1 else Verdict.DEPENDS
    return joined, ". ".join(part[0].upper() + part[1:] for part in said)
