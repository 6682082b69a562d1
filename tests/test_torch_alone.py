"""An environment of torch and annotated-types alone is enough for games, for all rules and losses, and for watching."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run
from tests.torch_alone import LOOP, link

ROOT = Path(__file__).parent.parent
GAMES = """
import importlib, sys
import torch
from torch import nn
import ganexp
for room in "augmentations losses networks optimizers penalties schedules strategies terms wrappers".split():
    for name in (package := importlib.import_module(f"ganexp.{room}")).__all__:
        getattr(package, name)
from ganexp.losses import Hinge
G, D = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))
adams = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
gan = ganexp.GAN(G, D, loss=Hinge(), prior=ganexp.Prior(4), optimizer_g=adams[0], optimizer_d=adams[1])
before = G.weight.clone()
ganexp.Step(gan, ganexp.strategies.detach)(iter([ganexp.Batch(torch.randn(8, 2))]))
assert not G.weight.equal(before)
with ganexp.watch(): pass
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return environment variables by which an interpreter without site-packages finds torch, annotated-types and ganexp."""
    packages = tmp_path_factory.mktemp("packages")
    link(packages)
    (packages / "ganexp").symlink_to(ROOT / "ganexp")
    return {"PYTHONPATH": str(packages), "PYTHONWARNINGS": "ignore"}  # torch warns where NumPy is missing


def alone_run(alone: dict[str, str], folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return run(sys.executable, "-S", *words, cwd=folder, **alone)


def test_games_rules_and_losses_need_torch_alone(alone: dict[str, str], tmp_path: Path):
    done = alone_run(alone, tmp_path, "-c", GAMES)
    assert done.returncode == 0, done.stderr


def test_watching_needs_torch_alone_and_imports_nothing_of_runs(alone: dict[str, str], tmp_path: Path):
    (tmp_path / "loop.py").write_text(LOOP)
    done = alone_run(alone, tmp_path, "-m", "ganexp", "watch", "loop.py")
    assert "rule    detach" in done.stdout, done.stderr
    rooms = {".".join(name.split(".")[1:3]) for name in done.stderr.split() if name.startswith("ganexp.")}
    assert not [room for room in rooms if room.split(".")[0] in ("config", "data", "evaluation", "training", "compare")]
    assert "cli.composing" not in rooms


def test_what_else_a_command_needs_is_one_sentence(alone: dict[str, str], tmp_path: Path):
    (tmp_path / "loop.py").write_text("")
    for words, said in {
        ("train",): "Error: This needs hydra, which is not installed: pip install ganexp without --no-deps brings it.",
        ("watch", "none.py"): "Error: none.py is no file: name a Python script that trains.",
        (
            "watch",
            "loop.py",
            "--picture",
            "x.png",
        ): "Error: this needs matplotlib, which is not installed: pip install matplotlib.",
    }.items():
        done = alone_run(alone, tmp_path, "-m", "ganexp", *words)
        assert done.stderr.splitlines() == [said]
