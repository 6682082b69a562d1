"""Torch, annotated-types and what they need, alone: `python -m tests.torch_alone SITE_PACKAGES LOOP.py` links to them there."""

import importlib.metadata
import re
import sys
from pathlib import Path

LOOP = """
import atexit, sys
import torch
from torch import nn
atexit.register(lambda: print("modules:", *sys.modules, file=sys.stderr))
G, D = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
g, d = torch.optim.SGD(G.parameters(), 0.1), torch.optim.SGD(D.parameters(), 0.1)
while True:
    x, z = torch.randn(8, 2), torch.randn(8, 4)
    d.zero_grad()
    fake = G(z)
    (D(fake.detach()).mean() - D(x).mean()).backward()
    d.step()
    g.zero_grad()
    (-D(fake).mean()).backward()
    g.step()
"""
"""A script whose rule is `detach`; as it ends, it lists the modules that have been imported."""


def needed_by(*names: str) -> set[str]:
    """Return the files and folders in site-packages of packages and of all that they need."""
    found: set[str] = set()
    waiting, seen = [*names], set()
    while waiting:
        seen.add(one := waiting.pop())
        try:
            package = importlib.metadata.distribution(one)
        except importlib.metadata.PackageNotFoundError:  # for another system
            continue
        found |= {file.parts[0] for file in package.files or () if file.parts[0] != ".."}
        needed = {re.split(r"[^\w.-]", text)[0] for text in package.requires or () if "extra ==" not in text}
        waiting += needed - seen
    return found - {"__pycache__"}


def link(folder: Path) -> None:
    """Link to torch, annotated-types and what they need in a folder; other packages are not found there."""
    installed = Path(str(importlib.metadata.distribution("torch").locate_file("")))
    for name in needed_by("torch", "annotated-types"):
        if not (folder / name).exists():
            (folder / name).symlink_to(installed / name)


if __name__ == "__main__":
    link(Path(sys.argv[1]))
    Path(sys.argv[2]).write_text(LOOP)
