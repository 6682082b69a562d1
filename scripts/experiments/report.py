"""Findings as one Markdown page with its pictures beside it, and as one HTML page with everything in it."""

import base64
import html
import os
import platform
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import torch
import torchvision
from markdown_it import MarkdownIt

from experiments.finding import Finding, table
from experiments.sources import SOURCES

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h2 { margin-top: 3rem; border-top: 1px solid #ddd; padding-top: 1.5rem; }
table { border-collapse: collapse; font-size: 0.88rem; margin: 1rem 0; }
th, td { border: 1px solid #ddd; padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
th { background: #f6f6f6; }
pre { background: #f6f6f6; padding: 0.8rem; overflow-x: auto; white-space: pre-wrap; font-size: 0.85rem; }
code { background: #f6f6f6; font-size: 0.9em; }
img { max-width: 100%; height: auto; }
.verdict { color: #fff; background: #666; padding: 0.1rem 0.5rem; border-radius: 0.8rem; font-size: 0.85rem; }
.confirmed { background: #2a7d3f; }
.refuted { background: #b3362b; }
.depends { background: #8a5a00; }
"""


def write(findings: Sequence[Finding], folder: Path, *, how: str, minutes: float) -> None:
    """Write `claims.md` with `claims/*.png`, and `claims.html`, below a folder."""
    (folder / "claims").mkdir(parents=True, exist_ok=True)
    text = markdown(findings, folder / "claims", how=how, minutes=minutes)
    (folder / "claims.md").write_text(text)
    (folder / "claims.html").write_text(page(text, folder))


def markdown(findings: Sequence[Finding], pictures: Path, *, how: str, minutes: float) -> str:
    """Return the page as Markdown, having saved its pictures."""
    rows = [{"#": f.number, "claim": f.claim, "verdict": f"**{f.verdict}**", "because": f.reason} for f in findings]
    parts = ["# Claims about update strategies\n", f"{conditions(how, minutes)}\n", table(rows)]
    for finding in findings:
        parts.append(
            f"## {finding.number}. {finding.claim}\n\nSource: {SOURCES[finding.number]}.\n\n"
            f"**{finding.verdict}**: {finding.reason}\n\n{finding.evidence.strip()}\n"
        )
        for i, (caption, figure) in enumerate(finding.figures.items(), 1):
            file = pictures / f"claim_{finding.number:02d}_{i}.png"
            figure.savefig(file, dpi=100)
            parts.append(f"{caption}:\n\n![{caption}]({pictures.name}/{file.name})\n")
    return "\n".join(parts)


def page(text: str, folder: Path) -> str:
    """Return Markdown as an HTML page of its own: pictures lie in it, verdicts are coloured."""
    body = MarkdownIt("commonmark").enable("table").render(text)
    body = re.sub(r'src="([^"]+\.png)"', lambda found: f'src="{_inlined(folder / found[1])}"', body)
    body = re.sub(r"<strong>(confirmed|refuted|depends|undecided)</strong>", r'<span class="verdict \1">\1</span>', body)
    title = html.escape(text.splitlines()[0].removeprefix("# "))
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title><style>{STYLE}</style>'
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}</body></html>\n'


def conditions(how: str, minutes: float) -> str:
    """Say what was run, on what, and when, and how to read it."""
    return (
        f"{machine(how, minutes)} Verdicts are computed from the measurements by the "
        "rules in `scripts/experiments/finding.py`. Times are medians of interleaved repeats, each ratio taken within its "
        "turn; brackets are 95 % confidence intervals (of medians by order statistics, of differences by Student's t, of "
        "means by Student's t too, for their logarithm where they cannot be negative and for their logit where they lie "
        "between 0 and 1, so that no interval holds what cannot be). "
        "*Redundant* gradients are what textbook loops compute for the network that does not move; *own* gradients are what "
        "ganexp computes."
    )


def machine(how: str, minutes: float) -> str:
    """Say what was run, on what, and when."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores of {_processor()}, no GPU"
    return (
        f"`{how}` on {date.today()}, in {minutes:.0f} minutes: {device}, torch {torch.__version__}, torchvision "
        f"{torchvision.__version__}, Python {platform.python_version()}."
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def _inlined(file: Path) -> str:
    return "data:image/png;base64," + base64.b64encode(file.read_bytes()).decode()
