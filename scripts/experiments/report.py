"""Findings as one Markdown page with its pictures beside it, and as one HTML page with everything in it."""

import base64
import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

try:
    from markdown_it import MarkdownIt
except ModuleNotFoundError:
    sys.exit("Error: this needs markdown-it-py, which is not installed: pip install -e '.[claims]'.")

from experiments.finding import Finding
from ganexp.cli.pages import html
from ganexp.cli.pages.machine import measured
from measuring.markdown import table

ADVICE = "none published that we know of"

SOURCES: dict[int, str] = {
    1: "[pytorch/examples, issue 116](https://github.com/pytorch/examples/issues/116), where it happened to someone",
    2: (
        "[PyTorch-GAN's SoftmaxGAN](https://github.com/eriklindernoren/PyTorch-GAN/blob/master/implementations/softmax_gan/"
        "softmax_gan.py), whose loop does so"
    ),
    3: "[pytorch/examples, issue 584](https://github.com/pytorch/examples/issues/584) asks for it",
    4: "[pytorch/examples, issue 116](https://github.com/pytorch/examples/issues/116): for speed, not for correctness",
    5: "[pytorch/examples, pull request 69](https://github.com/pytorch/examples/pull/69), which saves the second pass",
    6: (
        "[detach() when PyTorch trains GAN](https://www.fatalerrors.org/a/detach-when-pytorch-trains-gan.html) "
        "sets the three side by side"
    ),
    7: ADVICE,
    8: ADVICE,
    9: ADVICE,
    10: f"{ADVICE}; the loss is that of [Lin 2017](https://arxiv.org/abs/1704.06191)",
    11: f"{ADVICE}; the two kinds of steps are studied in [Mescheder et al. 2018](https://arxiv.org/abs/1801.04406)",
    12: "[Shen et al. 2021](https://arxiv.org/abs/2103.00430)",
}
"""Where each claim is made, by its number, as Markdown: a public source, if we know one."""


def write(findings: Mapping[int, Finding], folder: Path, *, how: str, minutes: float) -> None:
    """Write `claims.md` with `claims/*.png`, and `claims.html`, below a folder, given findings by the claim's number."""
    (folder / "claims").mkdir(parents=True, exist_ok=True)
    text = markdown(findings, folder / "claims", how=how, minutes=minutes)
    (folder / "claims.md").write_text(text)
    (folder / "claims.html").write_text(page(text, folder))


def markdown(findings: Mapping[int, Finding], pictures: Path, *, how: str, minutes: float) -> str:
    """Return the page as Markdown, having saved its pictures."""
    rows = [{"#": number, "claim": f.claim, "verdict": f.judgement, "because": f.reason} for number, f in findings.items()]
    parts = ["# Claims about update strategies\n", f"{conditions(how, minutes)}\n", table(rows)]
    for number, finding in findings.items():
        parts.append(
            f"## {number}. {finding.claim}\n\nSource: {SOURCES[number]}.\n\n"
            f"{finding.judgement}: {finding.reason}\n\n{finding.evidence.strip()}\n"
        )
        if finding.data:
            file = pictures / f"claim_{number:02d}.csv"
            write_rows(file, finding.data)
            parts.append(f"Measurements and settings: [{file.name}]({pictures.name}/{file.name}).\n")
        for i, (caption, figure) in enumerate(finding.figures.items(), 1):
            file = pictures / f"claim_{number:02d}_{i}.png"
            figure.savefig(file, dpi=100)
            parts.append(f"{caption}:\n\n![{caption}]({pictures.name}/{file.name})\n")
    return "\n".join(parts)


def write_rows(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as a CSV file."""
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, [*dict.fromkeys(key for row in rows for key in row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def page(text: str, folder: Path) -> str:
    """Return Markdown as a self-contained HTML page: pictures are embedded, verdicts are coloured."""
    body = MarkdownIt("commonmark").enable("table").render(text)
    body = re.sub(r'src="([^"]+\.png)"', lambda found: f'src="{_inlined(folder / found[1])}"', body)
    body = re.sub(
        r"<strong>((confirmed|refuted|depends|undecided)[a-z ]*)</strong>", r'<span class="verdict \2">\1</span>', body
    )
    return html.page(text.splitlines()[0].removeprefix("# "), f"<article>\n{body}</article>")


def conditions(how: str, minutes: float) -> str:
    """Return what was run, when and on what, and how to read the page."""
    return (
        f"{measured(how, minutes)} Verdicts are computed from the measurements by the "
        "rules in `scripts/experiments/finding.py`. Times are medians of interleaved repeats, each ratio taken within its "
        "turn; brackets are 95 % confidence intervals (of medians by order statistics, of differences by Student's t, of "
        "means by Student's t too, for their logarithm where they cannot be negative and for their logit where they lie "
        "between 0 and 1, so that no interval contains impossible values). "
        "*Redundant* gradients are what textbook loops compute for the network that does not move; *own* gradients are what "
        "ganexp computes."
    )


def _inlined(file: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
