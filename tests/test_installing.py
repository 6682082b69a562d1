"""What pip chooses of torch and torchvision by the bounds of pyproject.toml, from wheels of these names that are empty."""

import json
import os
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.processes import run

ROOT = Path(__file__).parent.parent
WANTED = [
    text
    for text in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    if text.startswith(("torch>", "torchvision"))
]
OF_TORCH = {"0.21.0": "2.6.0", "0.27.1": "2.12.1", "0.28.0": "2.13.0"}
"""Which torch each torchvision needs; a local build such as 2.13.0+cpu is also a 2.13.0."""


def offered(folder: Path, name: str, version: str, *needed: str) -> None:
    said = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {one}\n" for one in needed)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", said)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.mark.parametrize(
    ("torches", "chosen"),
    [
        (("2.12.1", "2.13.0+cpu"), {"torch": "2.12.1", "torchvision": "0.27.1"}),
        (("2.13.0", "2.13.0+cpu"), {"torch": "2.13.0", "torchvision": "0.28.0"}),
        (("2.5.1", "2.6.0"), {"torch": "2.6.0", "torchvision": "0.21.0"}),
    ],
)
def test_a_torch_that_torchvision_cannot_load_against_is_not_chosen(
    tmp_path: Path, torches: tuple[str, ...], chosen: dict[str, str]
):
    assert len(WANTED) == 2
    for version in torches:
        offered(tmp_path, "torch", version)
    for version, torch in OF_TORCH.items():
        offered(tmp_path, "torchvision", version, f"torch=={torch}")
    words = ("--isolated", "install", "-q", "--dry-run", "--ignore-installed", "--no-index", "--report", "-")
    done = run(sys.executable, "-m", "pip", *words, "--find-links", tmp_path, *WANTED, cwd=tmp_path, PIP_CONFIG_FILE=os.devnull)
    found = json.loads(done.stdout)["install"]
    assert {one["metadata"]["name"]: one["metadata"]["version"] for one in found} == chosen
